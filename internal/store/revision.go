package store

import (
	"fmt"
	"time"
)

// Revision is a change of a key, as a Past knows it.
type Revision struct {
	Rev     int64
	Time    time.Time
	Key     string // below the prefix
	Created bool
	Deleted bool
	Author  Author
	// Now is the value after the change, Prev the one before it; nil: the key did not exist.
	Now, Prev []byte
}

// Author is who made a change, and how.
type Author struct {
	User      string
	UserAgent string
	Verb      string
	// Subresource that was asked for.
	Subresource string
	// Request is its audit ID.
	Request string
}

// MomentError says that a text is no moment.
type MomentError struct{ Text string }

func (e *MomentError) Error() string {
	return fmt.Sprintf(`%q is neither a time (2026-01-02T15:04:05Z) nor a duration ("2h": so long ago) nor a resourceVersion`, e.Text)
}
