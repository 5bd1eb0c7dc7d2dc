package snapshot

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// Summary is what a snapshot has of one resource.
type Summary struct {
	Resource string `json:"resource"`
	Objects  int    `json:"objects"`
	Bytes    int64  `json:"bytes"`
	// Encryption names the providers that have encrypted values, and how many values; empty: none.
	Encryption map[string]int `json:"encryption,omitempty"`
}

// Inspection is what a snapshot has.
type Inspection struct {
	Path      string    `json:"path"`
	Bytes     int64     `json:"bytes"`
	SHA256    string    `json:"sha256"`
	Revision  int64     `json:"revision"`
	Compacted int64     `json:"compacted"`
	Keys      int       `json:"keys"`
	Resources []Summary `json:"resources"`
	// Other are keys that are no objects: bookkeeping of servers, and what others keep in the same etcd.
	Other Summary `json:"other"`
}

// encrypted is what encrypted values begin with.
const encrypted = "k8s:enc:"

// Inspect counts what a snapshot has.
func (k *Kinds) Inspect(ctx context.Context, f *File) (*Inspection, error) {
	out := &Inspection{Path: f.Path, Bytes: f.Bytes, SHA256: f.SHA256, Revision: f.Revision, Compacted: f.Compacted, Keys: len(f.Entries), Other: Summary{Resource: "(other keys)"}}
	found := map[string]*Summary{}
	for _, e := range f.Entries {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := &out.Other
		if id, _, ok := k.place(e.Key); ok {
			name := id.GroupResource.String()
			if s = found[name]; s == nil {
				s = &Summary{Resource: name}
				found[name] = s
			}
		}
		value, err := f.Value(e)
		if err != nil {
			return nil, err
		}
		s.add(value)
	}
	for _, s := range found {
		out.Resources = append(out.Resources, *s)
	}
	slices.SortFunc(out.Resources, func(a, b Summary) int { return strings.Compare(a.Resource, b.Resource) })
	return out, nil
}

func (s *Summary) add(value []byte) {
	s.Objects++
	s.Bytes += int64(len(value))
	if rest, ok := bytes.CutPrefix(value, []byte(encrypted)); ok {
		if s.Encryption == nil {
			s.Encryption = map[string]int{}
		}
		provider, _, _ := bytes.Cut(rest[:min(len(rest), 64)], []byte(":"))
		s.Encryption[string(provider)]++
	}
}
