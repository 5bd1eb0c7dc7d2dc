package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// Space says what takes the room of a database. Bytes of records are those before the database compresses them.
type Space struct {
	Revision  int64 `json:"revision"`
	Compacted int64 `json:"compacted"`
	// Keys are those that exist at Revision.
	Keys int64 `json:"keys"`
	// Records are all records of all keys.
	Records Amount `json:"records"`
	// Resources have the API's objects; Other has keys below the prefix that are no objects.
	Resources []Amount `json:"resources"`
	Other     Amount   `json:"other"`
	// Namespaces have the objects of a namespace.
	Namespaces []Amount `json:"namespaces,omitempty"`
	// Placed have the objects of a resource in a namespace; those that take most of the room.
	Placed []Amount `json:"placed,omitempty"`
	// Planes have what belongs to a control plane of --planes: its name, or its UID if the name is not known.
	Planes []Amount `json:"planes,omitempty"`
	// Outside are keys outside of the prefix, by how they begin.
	Outside []Amount `json:"outside,omitempty"`
	// Largest are the largest objects, the largest first.
	Largest []Large `json:"largest,omitempty"`
	// Disk is what the database takes on the disk; nil: that is not known.
	Disk *Disk `json:"disk,omitempty"`
	// History is what is kept beyond the compaction; nil: nothing is, or that is not known.
	History *Kept `json:"history,omitempty"`
	// Since is the time of the look with which this one was compared; nil: the server has not looked before.
	Since *time.Time `json:"since,omitempty"`
	// Seconds is how long it took to look.
	Seconds float64 `json:"seconds"`
}

// Amount counts what something has.
type Amount struct {
	// Name is that of a resource, a namespace, a plane or the beginning of keys.
	Name string `json:"name,omitempty"`
	// Namespace is where, if Name is a resource in one namespace.
	Namespace string `json:"namespace,omitempty"`
	// Objects exist, and their newest records take Bytes.
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
	// OldRecords are earlier ones, and deletions: the next compaction drops them.
	OldRecords int64 `json:"oldRecords"`
	OldBytes   int64 `json:"oldBytes"`
	// Encryption names the providers that have encrypted values, and how many values; empty: none.
	Encryption map[string]int64 `json:"encryption,omitempty"`
	// Grown is by how much Bytes are more, or less, than in the look of Since; nil: that is not known.
	Grown *int64 `json:"grown,omitempty"`
}

// Large is a large object.
type Large struct {
	Key   string `json:"key"`
	Bytes int64  `json:"bytes"`
	// Resource is empty if the key belongs to no object of the API.
	Resource  string `json:"resource,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

// Disk is room on the disk, in bytes.
type Disk struct {
	Bytes int64 `json:"bytes"`
	// Free are those of Bytes that hold nothing: further writes use them, and a defragmentation gives them back.
	Free int64 `json:"free"`
}

// Kept is the history that is kept beyond the compaction.
type Kept struct {
	// Disk is what it takes on the disk, in bytes.
	Disk int64 `json:"disk"`
	// Bytes are those of its changes before they are compressed; 0: that is not known.
	Bytes int64 `json:"bytes,omitempty"`
}

// largest is how many of the largest objects are told, outsides how many beginnings of keys outside of the prefix, and placed how many
// resources in namespaces.
const largest, outsides, placed = 50, 50, 2000

// encrypted is what encrypted values begin with.
const encrypted = "k8s:enc:"

// planesPrefix is where the keys of control planes are: below it, each has its UID.
const planesPrefix = "/kanzen/planes/"

// Space looks at all records of a database. It holds no values, and of keys only what the database needs.
func (k *Kinds) Space(ctx context.Context, db kv.Recorded) (*Space, error) {
	began := time.Now()
	t := tally{kinds: k, folders: map[string]*folder{}, resources: amounts{}, namespaces: amounts{}, placed: amounts{}, planes: amounts{}, outside: amounts{}, uids: map[string]string{}}
	var extent kv.Extent
	begin := func(e kv.Extent) error { extent = e; return nil }
	if err := db.Records(ctx, kv.Reading{Begin: begin}, func(r *kv.Record) error { t.add(r); return nil }); err != nil {
		return nil, err
	}
	out := &Space{Revision: extent.Head, Compacted: extent.Compacted, Keys: t.all.Objects, Records: t.all, Resources: t.resources.list(), Other: t.other,
		Namespaces: t.namespaces.list(), Placed: t.places(), Planes: t.planes.list(), Outside: t.outside.list(), Largest: t.large}
	for n := range out.Planes {
		out.Planes[n].Name = cmp.Or(t.uids[out.Planes[n].Name], out.Planes[n].Name)
	}
	out.Seconds = time.Since(began).Seconds()
	return out, nil
}

// tally counts records.
type tally struct {
	kinds      *Kinds
	all, other Amount
	resources  amounts
	namespaces amounts
	placed     amounts // by resource and namespace, apart by a space
	planes     amounts
	outside    amounts
	uids       map[string]string // of planes: their names
	// folders are by what keys have before their last slash.
	folders map[string]*folder
	large   []Large
}

// folder is keys that differ only after their last slash.
type folder struct {
	id     ID
	object bool
	plane  bool      // it is a Plane
	to     []*Amount // what they count for
}

func (t *tally) add(r *kv.Record) {
	dir := r.Key[:bytes.LastIndexByte(r.Key, '/')+1]
	in := t.folders[string(dir)]
	if in == nil {
		in = t.folder(string(r.Key))
		t.folders[string(dir)] = in
	}
	for _, a := range in.to {
		a.add(r)
	}
	if !r.Newest || r.Deleted {
		return
	}
	if in.plane {
		t.plane(r)
	}
	if n := int64(r.Bytes); len(t.large) < largest || n > t.large[len(t.large)-1].Bytes {
		t.keep(Large{Key: string(r.Key), Bytes: n}, in, string(r.Key[len(dir):]))
	}
}

// folder says what a key counts for, and all others of its folder.
func (t *tally) folder(key string) *folder {
	c := &folder{to: []*Amount{&t.all}}
	if id, _, ok := t.kinds.place(key); ok {
		c.id, c.object = id, true
		c.plane = id.GroupResource.String() == "planes.planes.kanzen.io"
		c.to = append(c.to, t.resources.of(id.GroupResource.String()))
		if id.Namespace != "" {
			c.to = append(c.to, t.namespaces.of(id.Namespace), t.placed.of(id.GroupResource.String()+" "+id.Namespace))
		}
		return c
	}
	if strings.HasPrefix(key, t.kinds.prefix) {
		c.to = append(c.to, &t.other)
		return c
	}
	if below, ok := strings.CutPrefix(key, planesPrefix); ok {
		uid, _, _ := strings.Cut(below, "/")
		c.to = append(c.to, t.planes.of(uid))
		return c
	}
	begins := key[:strings.LastIndex(key, "/")+1]
	if parts := strings.SplitAfterN(begins, "/", 4); len(parts) > 3 {
		begins = strings.Join(parts[:3], "")
	}
	if t.outside[begins] == nil && len(t.outside) >= outsides {
		begins = "(others)"
	}
	c.to = append(c.to, t.outside.of(cmp.Or(begins, "(no path)")))
	return c
}

// places are the resources in namespaces that take most of the room.
func (t *tally) places() []Amount {
	out := t.placed.list()
	out = slices.Clip(out[:min(len(out), placed)])
	for n := range out {
		out[n].Name, out[n].Namespace, _ = strings.Cut(out[n].Name, " ")
	}
	return out
}

// plane notes the name of a plane.
func (t *tally) plane(r *kv.Record) {
	var p struct {
		Metadata struct{ Name, UID string } `json:"metadata"`
	}
	if json.Unmarshal(r.Value, &p) == nil && p.Metadata.UID != "" { // the value may be encrypted
		t.uids[p.Metadata.UID] = p.Metadata.Name
	}
}

// keep keeps a large object, and drops the smallest if there are too many.
func (t *tally) keep(l Large, in *folder, name string) {
	if in.object {
		l.Resource, l.Namespace, l.Name = in.id.GroupResource.String(), in.id.Namespace, name
	}
	at, _ := slices.BinarySearchFunc(t.large, l.Bytes, func(have Large, n int64) int { return cmp.Compare(n, have.Bytes) })
	t.large = slices.Insert(t.large, at, l)
	t.large = t.large[:min(len(t.large), largest)]
}

func (a *Amount) add(r *kv.Record) {
	if !r.Newest || r.Deleted {
		a.OldRecords++
		a.OldBytes += int64(r.Bytes)
		return
	}
	a.Objects++
	a.Bytes += int64(r.Bytes)
	if rest, ok := bytes.CutPrefix(r.Value, []byte(encrypted)); ok {
		if a.Encryption == nil {
			a.Encryption = map[string]int64{}
		}
		provider, _, _ := bytes.Cut(rest[:min(len(rest), 64)], []byte(":"))
		a.Encryption[string(provider)]++
	}
}

// amounts are by name.
type amounts map[string]*Amount

func (a amounts) of(name string) *Amount {
	if a[name] == nil {
		a[name] = &Amount{Name: name}
	}
	return a[name]
}

// list has those first that take most.
func (a amounts) list() []Amount {
	out := []Amount{}
	for _, one := range slices.SortedFunc(maps.Values(a), func(a, b *Amount) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.OldBytes, a.Bytes+a.OldBytes), strings.Compare(a.Name, b.Name))
	}) {
		out = append(out, *one)
	}
	return out
}

// DirBytes is what the files below a directory take; 0: there is none.
func DirBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // files come and go while a server runs
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// keptIn is the history in a data directory on which no server runs.
func keptIn(dataDir string) *Kept {
	dir := filepath.Join(dataDir, "history")
	if _, err := os.Stat(dir); err != nil {
		return nil
	}
	return &Kept{Disk: DirBytes(dir)}
}
