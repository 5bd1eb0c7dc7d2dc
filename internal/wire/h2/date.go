package h2

import (
	"net/http"
	"sync/atomic"
	"time"
)

// date is the text of a second.
type date struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[date]

// today returns the time as the header Date has it. It is made once a second.
func today() string {
	now := time.Now()
	if d := lastDate.Load(); d != nil && d.second == now.Unix() {
		return d.text
	}
	d := &date{now.Unix(), now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
