package store

// This file makes one item of a write's outcome and of what the log then brings: one value in memory, decrypted once, in
// encodings that the answer, the watchers and later reads share.

// maxOwn bounds the items that a view keeps until the log brings them. There are as many as writes are under way.
const maxOwn = 1024

// Complete says that nothing is to be filled in when the value is read: its writer, in this process, has seen to that, or
// somebody has examined it.
func (i *Item) Complete() bool { return i.complete.Load() == complete }

// Examine is Complete for items of other writers too: look finds out about such an item when it is first asked for.
func (i *Item) Examine(look func() bool) bool {
	if i.complete.Load() == unexamined {
		found := incomplete
		if look() {
			found = complete
		}
		i.complete.CompareAndSwap(unexamined, found)
	}
	return i.Complete()
}

// setComplete notes what the writer knows.
func (i *Item) setComplete(known bool) {
	if known {
		i.complete.Store(complete)
		return
	}
	i.complete.Store(incomplete)
}

// Gone is the item at the revision that removed it, or took it out of what a client sees.
func (i *Item) Gone(rev int64) *Item {
	g := &Item{Key: i.Key, Rev: rev, Err: i.Err, size: i.size}
	g.plain.Store(i.plain.Load())
	g.slot.Store(i.slot.Load()) // after plain: one of both is there
	g.complete.Store(i.complete.Load())
	return g
}

// settle returns the item of a write: that of the view if the log was faster, else i, which the view takes from then on.
func (v *View) settle(i *Item, known bool) *Item {
	i.setComplete(known)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.state != loaded {
		return i
	}
	if have, ok := v.items.Get(i.Key); ok && have.Rev >= i.Rev {
		if have.Rev > i.Rev || have.Err != nil {
			return i
		}
		have.setComplete(known)
		return have
	}
	if i.Rev > v.rev && len(v.own) < maxOwn {
		if v.own == nil {
			v.own = map[string]*Item{}
		}
		v.own[i.Key] = i
	}
	return i
}

// Watched says that somebody follows the view: the encodings of what is written are likely to be asked for again.
func (v *View) Watched() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(v.watchers.groups) > 0
}

// ownLocked returns the item that this process has written at a key and revision, or nil.
func (v *View) ownLocked(key []byte, rev int64) *Item {
	if i := v.own[string(key)]; i != nil && i.Rev == rev {
		return i
	}
	return nil
}

// settledLocked forgets what was kept for a change, and takes it if the write has ended since the change was decoded.
func (v *View) settledLocked(c *change) {
	i := v.own[c.key]
	if i == nil || i.Rev > c.rev {
		return
	}
	delete(v.own, c.key)
	if i.Rev == c.rev && c.item != nil {
		c.item = i
	}
}
