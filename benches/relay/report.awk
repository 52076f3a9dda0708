# Raw measurements (workload, relay, round, queries/s, p99 ms, CPU us/query, steal %) to a markdown table of medians, in the
# order in which workloads and relays first appear.

function median(key, column,    n, i, j, t, v) {
    n = count[key]
    for (i = 1; i <= n; i++) v[i] = value[key, i, column] + 0
    for (i = 2; i <= n; i++) {
        t = v[i]
        for (j = i - 1; j >= 1 && v[j] > t; j--) v[j + 1] = v[j]
        v[j + 1] = t
    }
    return n % 2 ? v[(n + 1) / 2] : (v[n / 2] + v[n / 2 + 1]) / 2
}

function shown(number) { return number >= 100 ? sprintf("%d", number + 0.5) : sprintf("%.2f", number) }

function ratio(number, yardstick) { return number > 0 && yardstick > 0 ? sprintf("%.2f", number / yardstick) : "-" }

{
    key = $1 SUBSEP $2
    if (!($1 in has_workload)) { has_workload[$1]; workloads[++workload_count] = $1 }
    if (!($2 in has_relay)) { has_relay[$2]; relays[++relay_count] = $2 }
    count[key]++
    for (i = 4; i <= 7; i++) value[key, count[key], i] = $i
}

END {
    print "| workload | relay | queries/s | to HAProxy | p99 ms | to HAProxy | CPU us/query | to HAProxy | steal % |"
    print "|---|---|--:|--:|--:|--:|--:|--:|--:|"
    for (w = 1; w <= workload_count; w++) {
        yardstick = workloads[w] SUBSEP "haproxy"
        for (r = 1; r <= relay_count; r++) {
            key = workloads[w] SUBSEP relays[r]
            if (!count[key]) continue
            rate = median(key, 4)
            cpu = median(key, 6)
            rate_shown = shown(rate)
            if (workloads[w] == "result-100mb") rate_shown = rate_shown sprintf(" (%d MB/s)", rate * 100 + 0.5)
            printf "| %s | %s | %s | %s | %s | %s | %s | %s | %.1f |\n", workloads[w], relays[r], rate_shown,
                ratio(rate, count[yardstick] ? median(yardstick, 4) : 0), shown(median(key, 5)),
                ratio(median(key, 5), count[yardstick] ? median(yardstick, 5) : 0),
                relays[r] == "direct" ? "-" : shown(cpu), ratio(cpu, count[yardstick] ? median(yardstick, 6) : 0), median(key, 7)
        }
    }
}
