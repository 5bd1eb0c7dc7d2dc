// Package sqlite reads tables of SQLite databases. It does not write, and knows no SQL and no indexes: Table.Scan passes all rows in the
// order of their row IDs. It needs memory for a row and for the list of pages in the write-ahead log, whatever the size of the database.
//
//	lock.go      what keeps writers from changing what is read
//	header.go    the header of a database, and its journal
//	wal.go       the write-ahead log and its index
//	page.go      pages: from the log, or from the database
//	tree.go      the B-tree of a table
//	record.go    rows: cells, overflow pages and columns
//	schema.go    tables by name, and their columns
//
// The format is described in https://sqlite.org/fileformat2.html and https://sqlite.org/walformat.html. A database is a row of pages of one
// size, numbered from 1. A table is a B-tree of pages by row ID. What does not fit into a page continues on overflow pages:
//
//	header      the first 100 bytes of page 1; the rest of page 1 is the root of the table of tables
//	interior    5 | freeblock u16 | cells u16 | content u16 | fragments u8 | rightmost page u32 | positions u16… | cells: page u32, row ID
//	leaf        13 | freeblock u16 | cells u16 | content u16 | fragments u8 | positions u16… | cells: length, row ID, payload, overflow page u32
//	overflow    next page u32 | payload
//	payload     length of the header, a type for each column | the values
//	log         header: magic u32, version u32, page size u32, sequence u32, salts 2×u32, checksum 2×u32 | frames
//	frame       page u32, pages of the database after a commit u32, salts 2×u32, checksum 2×u32 | page
//
// A database may be in use. Open takes the locks of a reader, so that nobody changes what is read until Close. A database in WAL mode
// can be written meanwhile; a database with a rollback journal cannot. Damage is an error that names the page.
package sqlite
