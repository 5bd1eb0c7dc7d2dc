package discovery

import "sync"

// Live is the Set of now. It is made when it is asked for after something has
// come or gone, and not for every one of a thousand definitions that come at once.
type Live struct {
	// Changes counts what has come or gone; GroupVersions lists what there is.
	changes       func() int64
	groupVersions func() []GroupVersion
	make          func([]GroupVersion) *Set

	mu  sync.Mutex
	set *Set  // guarded by mu
	at  int64 // the count that set is of; guarded by mu
}

// NewLive returns the Set, made by make, of the group-versions that list
// returns; changes counts how often that may have changed.
func NewLive(changes func() int64, list func() []GroupVersion, make func([]GroupVersion) *Set) *Live {
	return &Live{changes: changes, groupVersions: list, make: make}
}

// Set is the Set of now.
func (l *Live) Set() *Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Counted before it is listed: what comes in between is listed again.
	if n := l.changes(); l.set == nil || n != l.at {
		l.set, l.at = l.make(l.groupVersions()), n
	}
	return l.set
}
