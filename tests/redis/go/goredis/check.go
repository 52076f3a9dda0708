package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the program of a client is asked to do, and the count of its checks: see ../../README.md.

const (
	orders  = "shop.orders"
	stepped = "shop.stepped"
	stamps  = "shop.t"
	nope    = "shop.nope"
	// The second proxy's sequences begin here: an id tells who gave it.
	second = 1_000_000_000
	// After a proxy was killed, a client must have an id from the other one within this time.
	soon = 15 * time.Second
)

type user struct{ name, password string }

var (
	ctx    = context.Background()
	writer = user{"labels", "s3cret"}
	reader = user{"reader", "r3ad"}
)

// Client is what a program has of its library.
type Client interface {
	Incr(key string) (int64, error)
	IncrBy(key string, n int64) (int64, error)
	Pipeline(keys []string) ([]int64, error)
	Get(key string) (string, error)
	MGet(keys ...string) ([]any, error)
	Exists(keys ...string) (int64, error)
	Set(key, value string) error
	Raw(words ...any) (any, error)
}

// Check counts.
type Check struct {
	checks, wrong int
	ids           map[string]bool
}

type id struct {
	key string
	id  int64
}

func (c *Check) that(what string, holds bool, found any) {
	c.checks++
	if !holds {
		c.wrong++
		fmt.Printf("WRONG %s: %v\n", what, found)
	}
}

func (c *Check) same(what string, found, expect any) {
	a, b := fmt.Sprint(found), fmt.Sprint(expect)
	c.that(what, a == b, a+", and not "+b)
}

func (c *Check) drawn(what, key string, ids ...int64) {
	before := len(c.ids)
	for _, one := range ids {
		c.ids[fmt.Sprint(id{key, one})] = true
	}
	c.that(what+": ids that nobody has", len(c.ids) == before+len(ids), ids)
}

func (c *Check) refused(what, text string, err error) {
	c.that(what+": its error", err != nil && strings.Contains(err.Error(), text), err)
}

// must: without what the library could not get there is no use in going on.
func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// span: from first to last, both among them.
func span(first, last, step int64) (ids []int64) {
	for one := first; one <= last; one += step {
		ids = append(ids, one)
	}
	return ids
}

func same(key string) []string { return slices.Repeat([]string{key}, 100) }

func numbers(found any) (all []int64) {
	for _, one := range found.([]any) {
		all = append(all, one.(int64))
	}
	return all
}

// draw: INCRBY, a pipeline and ROWSTAMP.TAKE of a sequence, after its id first; the last id.
func draw(c *Check, client Client, key string, first, step int64) int64 {
	c.drawn("INCR "+key, key, first)
	last := must(client.IncrBy(key, 10))
	c.drawn("INCRBY "+key+" 10", key, span(first+step, last, step)...)
	c.same("INCRBY "+key+" 10", last, first+10*step)
	ids := must(client.Pipeline(same(key)))
	c.drawn("100 INCR "+key+" in a pipeline", key, ids...)
	c.same("100 INCR "+key+" in a pipeline", ids, span(last+step, last+100*step, step))
	runs := numbers(must(client.Raw("ROWSTAMP.TAKE", key, 5)))
	c.same("ROWSTAMP.TAKE "+key+" 5", runs, []int64{ids[99] + step, 5, step})
	last = runs[0] + 4*step
	c.drawn("ROWSTAMP.TAKE "+key+" 5", key, span(runs[0], last, step)...)
	return last
}

func drawStamps(c *Check, client Client) {
	first := must(client.Incr(stamps))
	c.drawn("INCR "+stamps, stamps, first)
	last := must(client.IncrBy(stamps, 10))
	c.drawn("INCRBY "+stamps+" 10", stamps, span(last-9, last, 1)...)
	ids := must(client.Pipeline(same(stamps)))
	c.drawn("100 INCR "+stamps+" in a pipeline", stamps, ids...)
	all := append([]int64{first, last - 9, last}, ids...)
	c.that(stamps+" ascends", slices.IsSorted(all), all)
	c.that(stamps+" is above 2^53", first > 1<<53, first)
	runs, sum := numbers(must(client.Raw("ROWSTAMP.TAKE", stamps, 10))), int64(0)
	for run := range slices.Chunk(runs, 3) {
		c.drawn("ROWSTAMP.TAKE "+stamps+" 10", stamps, span(run[0], run[0]+(run[1]-1)*run[2], run[2])...)
		sum += run[1]
	}
	c.same("ROWSTAMP.TAKE "+stamps+" 10: how many", sum, 10)
	parts := must(client.Raw("ROWSTAMP.DECODE", stamps, strconv.FormatInt(first, 10)))
	var node any
	switch parts := parts.(type) {
	case map[any]any:
		node = parts["node"]
	case []any:
		node = parts[3]
	}
	c.that("ROWSTAMP.DECODE "+stamps, node == int64(0) || node == int64(1), parts)
}

func run(c *Check, open func(user) Client, isCluster bool) {
	client := open(writer)
	_, err := client.Get(orders)
	c.refused("GET before the first id", "nil", err)
	first := must(client.Incr(orders))
	last := strconv.FormatInt(draw(c, client, orders, first, 1), 10)
	c.same("GET "+orders, must(client.Get(orders)), last)
	// Different keys of one command have different slots, and then a cluster client does not send it.
	if isCluster {
		c.same("MGET", must(client.MGet(orders, orders)), []any{last, last})
		c.same("EXISTS", must(client.Exists(orders, orders)), 2)
	} else {
		c.same("MGET", must(client.MGet(orders, stepped, nope)), []any{last, nil, nil})
		c.same("EXISTS", must(client.Exists(orders, stepped, nope)), 2)
	}
	draw(c, client, stepped, must(client.Incr(stepped)), 10)
	drawStamps(c, client)
	c.same("ROWSTAMP.LIST", must(client.Raw("ROWSTAMP.LIST")), []any{orders, stepped, stamps})
	_, err = client.Incr(nope)
	c.refused("INCR "+nope, "the rules have no generator", err)
	c.refused("SET", "unknown command 'set'", client.Set(orders, "1"))
	_, err = client.IncrBy(orders, 0)
	c.refused("INCRBY 0", "is not a number of ids", err)
	other := open(reader)
	if seen, err := other.Get(orders); err != nil {
		c.refused("GET as a reader", "nil", err)
	} else {
		c.that("GET as a reader", must(strconv.Atoi(seen)) > 0, seen)
	}
	_, err = other.Incr(orders)
	c.refused("INCR as a reader", "NOPERM", err)
	_, err = open(user{"reader", "wrong"}).Get(orders)
	c.refused("a wrong password", "WRONGPASS", err)
	c.drawn("INCR "+orders+" after all errors", orders, must(client.Incr(orders)))
	if isCluster {
		lose(c, client, first >= second)
	}
}

// lose: the proxy that the client uses is killed, and it has to go on with the other one.
func lose(c *Check, client Client, usesSecond bool) {
	fmt.Println("kill", map[bool]int{false: 1, true: 2}[usesSecond])
	must(bufio.NewReader(os.Stdin).ReadString('\n'))
	begun := time.Now()
	var failed []error
	var first int64
	for {
		var err error
		if first, err = client.Incr(orders); err == nil {
			break
		}
		failed = append(failed, err)
		if time.Since(begun) > soon {
			c.that("the other proxy", false, fmt.Sprintf("%d calls failed, the last with %v", len(failed), err))
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	why := ""
	if len(failed) > 0 {
		why = fmt.Sprintf(" (%v)", failed[0])
	}
	fmt.Printf("note went on after %.2f s, %d calls failed%s\n", time.Since(begun).Seconds(), len(failed), why)
	c.that("the other proxy", (first >= second) != usesSecond, first)
	draw(c, client, orders, first, 1)
	draw(c, client, stepped, must(client.Incr(stepped)), 10)
	drawStamps(c, client)
}
