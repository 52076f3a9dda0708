// GORM over go-sql-driver, its tables made by others. On MariaDB it appends RETURNING for the primary key; on MySQL it counts
// a slice's keys up from LastInsertId.
package main

import (
	"database/sql"
	"fmt"
	"time"

	"rowstamp/drivers/check"

	driver "gorm.io/driver/mysql"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// A Row is in orders or kept: the calls name the table.
type Row struct {
	ID      int64 `gorm:"primaryKey;autoIncrement"`
	Tag     string
	Note    *string
	Qty     *int32
	Price   *string
	Weight  *float64
	Placed  *time.Time
	Paid    *bool
	Payload []byte
}

type program struct {
	*check.Check
	db *gorm.DB
}

func main() {
	dsn := check.Config().FormatDSN()
	db := check.Must(gorm.Open(driver.Open(dsn), &gorm.Config{Logger: logger.Default.LogMode(logger.Silent)}))
	p := program{&check.Check{Driver: "GORM", Witness: check.Must(sql.Open("mysql", dsn))}, db}
	for _, table := range check.Tables {
		p.single(table)
		p.batches(table.Name)
		p.transactions(table.Name)
	}
	p.Done()
}

func row(tag, note string, qty int) *Row {
	small := int32(qty)
	return &Row{Tag: tag, Note: &note, Qty: &small}
}

func create(db *gorm.DB, table string, value any) {
	check.Must(0, db.Table(table).Create(value).Error)
}

func ids(rows []*Row) []int64 {
	ids := []int64{}
	for _, r := range rows {
		ids = append(ids, r.ID)
	}
	return ids
}

func (p program) single(table check.Table) {
	one := row("gorm one", "it's one", 0)
	var last int64
	check.Must(0, p.db.Transaction(func(tx *gorm.DB) error {
		create(tx, table.Name, one)
		return tx.Raw("SELECT LAST_INSERT_ID()").Scan(&last).Error
	}))
	p.Same(table.Name+": LAST_INSERT_ID() is its id", one.ID, last)
	p.Same(table.Name+": one object", check.Rows("it's one", one.ID), p.Rows(table.Name, "gorm one"))
	p.Same(fmt.Sprintf("%s: id %d is not below %d", table.Name, one.ID, table.FirstID), true, one.ID >= table.FirstID)

	expect := []check.Row{}
	for _, s := range check.Samples {
		r := Row{Tag: "gorm repeated", Note: s.Note, Qty: s.Qty, Price: s.Price, Weight: s.Weight, Placed: s.Placed, Paid: s.Paid,
			Payload: s.Payload}
		create(p.db.Session(&gorm.Session{PrepareStmt: true}), table.Name, &r)
		expect = append(expect, check.Row{ID: r.ID, Text: s.Text})
	}
	p.Same(table.Name+": objects of varied types, prepared", expect, p.Rows(table.Name, "gorm repeated"))
}

func (p program) batches(table string) {
	several := []*Row{row("gorm several", "s", 0), row("gorm several", "s", 1), row("gorm several", "s", 2)}
	create(p.db, table, several)
	p.Same(table+": several objects in a statement", check.Rows("s", ids(several)...), p.Rows(table, "gorm several"))

	batch := []*Row{}
	for i := range 25 {
		batch = append(batch, row("gorm batch", "b", i))
	}
	check.Must(0, p.db.Table(table).CreateInBatches(batch, 10).Error)
	p.Same(table+": batches", check.Rows("b", ids(batch)...), p.Rows(table, "gorm batch"))
}

func (p program) transactions(table string) {
	committed := []*Row{row("gorm transaction", "t", 0), row("gorm transaction", "t", 1)}
	check.Must(0, p.db.Transaction(func(tx *gorm.DB) error {
		for _, r := range committed {
			create(tx, table, r)
		}
		p.Same(table+": nothing is seen before the commit", []check.Row{}, p.Rows(table, "gorm transaction"))
		return nil
	}))
	p.Same(table+": committed", check.Rows("t", ids(committed)...), p.Rows(table, "gorm transaction"))

	gone := row("gorm rollback", "t", 0)
	tx := p.db.Begin()
	create(tx, table, gone)
	check.Must(0, tx.Rollback().Error)
	p.Same(table+": rolled back", []check.Row{}, p.Rows(table, "gorm rollback"))
	after := row("gorm rollback", "t", 0)
	create(p.db, table, after)
	p.Same(table+": after the rollback", check.Rows("t", after.ID), p.Rows(table, "gorm rollback"))
	p.Same(fmt.Sprintf("%s: id %d is not given again", table, gone.ID), true, after.ID > gone.ID)
}
