package rbac

import "hash/maphash"

// width squared is how many shards there are: enough that a change copies only a small part of a large table.
const width = 16

// shards map keys to values, by their hashes. A copy shares what set does not replace: a row of shards, one shard and the values of one key. With few
// keys, as most control planes have, they are small.
type shards[K comparable, V any] struct{ rows [width]*[width]shard[K, V] }

// shard has the entries of a part of the hashes, in their order.
type shard[K comparable, V any] []entry[K, V]

type entry[K comparable, V any] struct {
	hash   uint64
	key    K
	values []V
}

// seed is of all hashes of a process: copies share shards.
var seed = maphash.MakeSeed()

// at returns the place of a hash.
func at(hash uint64) (row, column int) { return int(hash >> 60), int(hash >> 56 % width) }

// find returns the place of a key in a shard, and whether it is there.
func (s shard[K, V]) find(hash uint64, k K) (int, bool) {
	n, end := 0, len(s)
	for n < end {
		if middle := int(uint(n+end) >> 1); s[middle].hash < hash {
			n = middle + 1
		} else {
			end = middle
		}
	}
	for ; n < len(s) && s[n].hash == hash; n++ {
		if s[n].key == k {
			return n, true
		}
	}
	return n, false
}

// of returns the values of a key.
func (m *shards[K, V]) of(k K) []V {
	hash := maphash.Comparable(seed, k)
	row, column := at(hash)
	if m.rows[row] == nil {
		return nil
	}
	s := m.rows[row][column]
	if n, ok := s.find(hash, k); ok {
		return s[n].values
	}
	return nil
}

// set gives a key other values; none: the key goes.
func (m *shards[K, V]) set(k K, values []V) {
	hash := maphash.Comparable(seed, k)
	row, column := at(hash)
	var next [width]shard[K, V]
	if m.rows[row] != nil {
		next = *m.rows[row]
	}
	s := next[column]
	n, found := s.find(hash, k)
	after := n
	if found {
		after++
	}
	changed := make(shard[K, V], 0, len(s)+1)
	changed = append(changed, s[:n]...)
	if len(values) > 0 {
		changed = append(changed, entry[K, V]{hash, k, values})
	}
	next[column] = append(changed, s[after:]...)
	m.rows[row] = &next
}

// size is how many keys have values.
func (m *shards[K, V]) size() (n int) {
	for _, row := range m.rows {
		if row == nil {
			continue
		}
		for _, s := range row {
			n += len(s)
		}
	}
	return n
}
