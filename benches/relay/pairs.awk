# Raw measurements (as report.awk reads them) to a table of each round's ratios of Rowstamp to HAProxy.

function ratio(a, b) { return b > 0 ? sprintf("%.2f", a / b) : "-" }

{
    if (!($1 in known)) { known[$1]; workloads[++count] = $1 }
    rate[$1, $2, $3] = $4; p99[$1, $2, $3] = $5; cpu[$1, $2, $3] = $6; steal[$1, $2, $3] = $7
    if ($3 > rounds) rounds = $3
}

END {
    print "Rowstamp to HAProxy, round by round: CPU a query, queries/s, 99th percentile; steal % of both"
    print ""
    for (w = 1; w <= count; w++) {
        name = workloads[w]
        for (r = 1; r <= rounds; r++)
            printf "    %-16s %2d  %5s %5s %5s  %.1f %.1f\n", name, r, ratio(cpu[name, "rowstamp", r], cpu[name, "haproxy", r]),
                ratio(rate[name, "rowstamp", r], rate[name, "haproxy", r]),
                ratio(p99[name, "rowstamp", r], p99[name, "haproxy", r]), steal[name, "haproxy", r], steal[name, "rowstamp", r]
    }
}
