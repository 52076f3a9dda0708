// go-sql-driver through database/sql. Its default prepares on the server for each call with arguments (prepare, execute,
// close); interpolateParams writes them into the text instead.
package main

import (
	"context"
	"database/sql"
	"fmt"

	"rowstamp/drivers/check"

	"github.com/go-sql-driver/mysql"
)

type program struct {
	*check.Check
	// One connection, as LAST_INSERT_ID() is the connection's.
	*sql.Conn
	ctx  context.Context
	name string
}

func main() {
	c := &check.Check{Driver: "go-sql-driver", Witness: open(check.Config())}
	for _, interpolate := range []bool{false, true} {
		config := check.Config()
		config.InterpolateParams = interpolate
		name := map[bool]string{false: "go prepared", true: "go interpolated"}[interpolate]
		ctx := context.Background()
		p := program{c, check.Must(open(config).Conn(ctx)), ctx, name}
		for _, table := range check.Tables {
			p.single(table)
			p.several(table.Name)
			p.prepared(table.Name)
			p.transactions(table.Name)
		}
	}
	c.Done()
}

func open(config *mysql.Config) *sql.DB {
	return sql.OpenDB(check.Must(mysql.NewConnector(config)))
}

func (p program) line(table, what string) string {
	return fmt.Sprintf("%s (%s): %s", table, p.name, what)
}

func (p program) insert(query string, args ...any) sql.Result {
	return check.Must(p.ExecContext(p.ctx, query, args...))
}

func id(result sql.Result) int64 { return check.Must(result.LastInsertId()) }

func (p program) single(table check.Table) {
	tag := p.name + " one"
	result := p.insert("INSERT INTO "+table.Name+" (tag, note, qty) VALUES (?, ?, ?)", tag, "it's one", 0)
	var last int64
	check.Must(0, p.QueryRowContext(p.ctx, "SELECT LAST_INSERT_ID()").Scan(&last))
	p.Same(p.line(table.Name, "one row"), check.Rows("it's one", id(result)), p.Rows(table.Name, tag))
	p.Same(p.line(table.Name, "LAST_INSERT_ID() is LastInsertId"), id(result), last)
	p.Same(p.line(table.Name, fmt.Sprintf("id %d is not below %d", last, table.FirstID)), true, id(result) >= table.FirstID)

	tag = p.name + " text"
	result = p.insert("INSERT INTO " + table.Name + " (tag, note, qty) VALUES ('" + tag + "', 't', 0)")
	p.Same(p.line(table.Name, "one row without arguments"), check.Rows("t", id(result)), p.Rows(table.Name, tag))
}

func (p program) several(table string) {
	tag := p.name + " several"
	insert := "INSERT INTO " + table + " (tag, note, qty) VALUES (?, 's', 0), (?, 's', 1), (?, 's', 2)"
	result := p.insert(insert, tag, tag, tag)
	first := id(result)
	p.Same(p.line(table, "affected rows of several"), int64(3), check.Must(result.RowsAffected()))
	p.Same(p.line(table, "several rows"), check.Rows("s", first, first+1, first+2), p.Rows(table, tag))
}

func (p program) prepared(table string) {
	tag := p.name + " repeated"
	insert := "INSERT INTO " + table + " (tag, " + check.Columns + ") VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
	statement := check.Must(p.PrepareContext(p.ctx, insert))
	defer statement.Close()
	expect := []check.Row{}
	for _, s := range check.Samples {
		result := check.Must(statement.Exec(tag, s.Note, s.Qty, s.Price, s.Weight, s.Placed, s.Paid, s.Payload))
		expect = append(expect, check.Row{ID: id(result), Text: s.Text})
	}
	p.Same(p.line(table, "repeated executions"), expect, p.Rows(table, tag))

	tag = p.name + " batch"
	statement = check.Must(p.PrepareContext(p.ctx, "INSERT INTO "+table+" (tag, note, qty) VALUES (?, 'b', ?)"))
	ids := []int64{}
	for i := range 20 {
		ids = append(ids, id(check.Must(statement.Exec(tag, i))))
	}
	check.Must(0, statement.Close())
	p.Same(p.line(table, "a batch"), check.Rows("b", ids...), p.Rows(table, tag))

	tag = p.name + " null"
	result := p.insert("INSERT INTO "+table+" (id, tag, note, qty) VALUES (?, ?, 'n', 0)", nil, tag)
	p.Same(p.line(table, "id bound to NULL"), check.Rows("n", id(result)), p.Rows(table, tag))
}

func (p program) transactions(table string) {
	insert := "INSERT INTO " + table + " (tag, note, qty) VALUES (?, 't', ?)"
	tag := p.name + " transaction"
	tx := check.Must(p.BeginTx(p.ctx, nil))
	first := id(check.Must(tx.Exec(insert, tag, 0)))
	second := id(check.Must(tx.Exec(insert, tag, 1)))
	p.Same(p.line(table, "nothing is seen before the commit"), []check.Row{}, p.Rows(table, tag))
	check.Must(0, tx.Commit())
	p.Same(p.line(table, "committed"), check.Rows("t", first, second), p.Rows(table, tag))

	tag = p.name + " rollback"
	tx = check.Must(p.BeginTx(p.ctx, nil))
	gone := id(check.Must(tx.Exec(insert, tag, 0)))
	check.Must(0, tx.Rollback())
	p.Same(p.line(table, "rolled back"), []check.Row{}, p.Rows(table, tag))
	after := id(p.insert(insert, tag, 0))
	p.Same(p.line(table, "after the rollback"), check.Rows("t", after), p.Rows(table, tag))
	p.Same(p.line(table, fmt.Sprintf("id %d is not given again", gone)), true, after > gone)
}
