// Package check has what both programs need: the address, the rows that they write, and the count of their checks.
package check

import (
	"database/sql"
	"fmt"
	"os"
	"reflect"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A Table and the least id that it may hand out.
type Table struct {
	Name    string
	FirstID int64
}

// Tables that both programs write to.
var Tables = []Table{{"orders", 5000}, {"kept", 7000}}

// A Row as the table's view shows it.
type Row struct {
	ID   int64
	Text string
}

// A Sample is values of the columns (nil: NULL) and the text that they must give.
type Sample struct {
	Note    *string
	Qty     *int32
	Price   *string
	Weight  *float64
	Placed  *time.Time
	Paid    *bool
	Payload []byte
	Text    string
}

// Columns of a Sample, in its order.
const Columns = "note, qty, price, weight, placed, paid, payload"

const tricky = "it's \"q\" \\ ? (), -- /* é ☃ 😀"

func at[T any](value T) *T { return &value }

// Samples change NULLs and types from one row to the next, so that a prepared statement has to bind again.
var Samples = []Sample{
	{at("plain"), at(int32(1)), at("12.50"), at(0.25), at(time.Date(2024, 2, 29, 13, 14, 15, 123456000, time.UTC)), at(true),
		[]byte{0, 1, 0x27, 0x5c, 0xff}, "plain|1|12.50|0.25|2024-02-29 13:14:15.123456|1|0001275CFF"},
	{nil, nil, nil, nil, nil, nil, nil, "NULL|NULL|NULL|NULL|NULL|NULL|NULL"},
	{at(tricky), at(int32(-2147483648)), at("-0.01"), at(-1e10), at(time.Date(1999, 12, 31, 23, 59, 59, 0, time.UTC)), at(false),
		[]byte{}, tricky + "|-2147483648|-0.01|-10000000000|1999-12-31 23:59:59.000000|0|"},
	{at(""), at(int32(0)), at("9999999999.99"), at(0.5), at(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)), nil,
		[]byte("NULL"), "|0|9999999999.99|0.5|2000-01-01 00:00:00.000000|NULL|4E554C4C"},
}

// Short is the text of a row of which only note and qty were given.
func Short(note string, qty int) string {
	return fmt.Sprintf("%s|%d|NULL|NULL|NULL|NULL|NULL", note, qty)
}

// Rows of these ids, given with note and qty 0, 1, ...
func Rows(note string, ids ...int64) []Row {
	rows := []Row{}
	for i, id := range ids {
		rows = append(rows, Row{id, Short(note, i)})
	}
	return rows
}

// Config is the driver's default one with the address and the login.
func Config() *mysql.Config {
	config := mysql.NewConfig()
	config.Net = "tcp"
	config.Addr = os.Getenv("ROWSTAMP_HOST") + ":" + os.Getenv("ROWSTAMP_PORT")
	config.User = os.Getenv("ROWSTAMP_USER")
	config.Passwd = os.Getenv("ROWSTAMP_PASSWORD")
	config.DBName = os.Getenv("ROWSTAMP_DATABASE")
	return config
}

// Check counts comparisons and prints a line for each.
type Check struct {
	Driver       string
	Witness      *sql.DB
	count, wrong int
}

// Must ends the program on an error.
func Must[T any](value T, err error) T {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return value
}

// Same compares deeply.
func (c *Check) Same(what string, expect, got any) {
	c.count++
	if reflect.DeepEqual(expect, got) {
		fmt.Println(" ", what)
		return
	}
	c.wrong++
	fmt.Printf("  WRONG %s: expected %v, got %v\n", what, expect, got)
}

// Rows that the witness finds in the table under the tag.
func (c *Check) Rows(table, tag string) []Row {
	result := Must(c.Witness.Query("SELECT id, txt FROM "+table+"_text WHERE tag = ? ORDER BY id", tag))
	defer result.Close()
	rows := []Row{}
	for result.Next() {
		var row Row
		Must(0, result.Scan(&row.ID, &row.Text))
		rows = append(rows, row)
	}
	Must(0, result.Err())
	return rows
}

// Done prints the last line and ends the program.
func (c *Check) Done() {
	if c.wrong > 0 {
		fmt.Printf("FAILED %s: %d of %d checks\n", c.Driver, c.wrong, c.count)
		os.Exit(1)
	}
	fmt.Printf("ok %s: %d checks\n", c.Driver, c.count)
}
