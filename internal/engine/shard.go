package engine

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/sharding"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
	"github.com/kanzen-io/kanzen/internal/store"
)

// shard is the part of a resource that the shardSelector of a list or watch asks for: the objects of which the hash of
// one field is in certain ranges. Neither field ever changes, so no object moves from one shard to another.
type shard struct {
	info        *metav1.ShardInfo
	byNamespace bool // else by UID
	ranges      []hashRange
	// outside is called for each item that is in another shard. Optional.
	outside func()
}

// hashRange is the hashes from first to last, both included: the end that a selector excludes may be 2^64.
type hashRange struct{ first, last uint64 }

// shardOf reads the shard selector of options. It returns nil if there is none, or none is looked at.
func (c *call) shardOf(o *internalversion.ListOptions) (*shard, error) {
	if o.ShardSelector == "" || !c.e.Shards {
		return nil, nil
	}
	sel, err := sharding.Parse(o.ShardSelector)
	if err != nil {
		return nil, fmt.Errorf("invalid shard selector: %w", err)
	}
	s := &shard{info: &metav1.ShardInfo{Selector: sel.String()}}
	for _, r := range sel.Requirements() {
		s.byNamespace = r.Key == "object.metadata.namespace" // the same in all of them
		first, err := parseHash(r.Start)
		if err != nil {
			return nil, err
		}
		end, err := parseHash(r.End)
		if err != nil {
			return nil, err
		}
		s.ranges = append(s.ranges, hashRange{first, end - 1})
	}
	return s, nil
}

// parseHash reads a bound of a range. The end of all hashes, 2^64, is 0, so that one less is the last hash.
func parseHash(s string) (uint64, error) {
	if s == "0x10000000000000000" {
		return 0, nil
	}
	return strconv.ParseUint(s, 0, 64)
}

// holds returns a func that says whether items are in the shard. It is for one goroutine.
func (s *shard) holds() func(*store.Item) (bool, error) {
	var values store.Values
	var field []byte
	h := fnv.New64a()
	return func(i *store.Item) (bool, error) {
		if i.Err != nil {
			return true, nil // what cannot be read is told of in every shard
		}
		if s.byNamespace {
			field = append(field[:0], i.Namespace()...)
		} else if uid, err := uidOf(values.Of(i)); err != nil {
			return false, err
		} else {
			field = append(field[:0], uid...)
		}
		h.Reset()
		_, _ = h.Write(field) // a hash takes everything
		hash := h.Sum64()
		for _, r := range s.ranges {
			if r.first <= hash && hash <= r.last {
				return true, nil
			}
		}
		if s.outside != nil {
			s.outside()
		}
		return false, nil
	}
}

// uidOf reads the UID from a stored value, in either encoding. It is valid as long as the value.
func uidOf(value []byte) ([]byte, error) {
	if isJSON(value) {
		found := jsonobject.Find(value, "metadata", "uid")
		if found == nil {
			return nil, nil
		}
		var uid string
		err := json.Unmarshal(found, &uid)
		return []byte(uid), err
	}
	raw, err := rawOf(value)
	if err != nil {
		return nil, err
	}
	meta, _, err := objectMeta(raw)
	if err != nil {
		return nil, err
	}
	for len(meta) > 0 {
		num, val, rest, err := wireField(meta)
		if err != nil {
			return nil, err
		}
		if num == metaUID {
			return val, nil
		}
		meta = rest
	}
	return nil, nil
}
