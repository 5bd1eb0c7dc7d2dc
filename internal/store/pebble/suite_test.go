package pebble_test

import (
	"testing"

	"github.com/kanzen-io/kanzen/internal/store/pebble"
	"github.com/kanzen-io/kanzen/internal/store/storetest"
)

func TestSuite(t *testing.T) {
	for name, unsynced := range map[string]bool{"synced": false, "unsynced": true} {
		t.Run(name, func(t *testing.T) {
			storetest.Run(t, func(t testing.TB) storetest.Engine {
				dir := t.TempDir()
				return storetest.Engine{Open: func(t testing.TB) storetest.DB {
					db, err := pebble.Open(pebble.Config{Dir: dir, UnsafeNoFsync: unsynced})
					if err != nil {
						t.Fatal(err)
					}
					return db
				}}
			})
		})
	}
}
