package planes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
	"weak"

	"github.com/google/uuid"
	"golang.org/x/sync/singleflight"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/server"
	"github.com/kanzen-io/kanzen/internal/server/controlplane"
	"github.com/kanzen-io/kanzen/internal/server/planes/exports"
	"github.com/kanzen-io/kanzen/internal/store/kv"
	"github.com/kanzen-io/kanzen/internal/wire/pki"
)

// This file has what planes begin with. A plane that is used for nothing else makes its first objects as every control plane does, and
// what it has then is a base: stored once, it lies below all planes that are made by the same settings (store/layer), each of which
// stores only what it changes. Where stored objects are encrypted, by keys that depend on their places, there are no bases, and each
// plane makes its own first objects.

// basesPrefix is where bases are in the log: of each the key ID, whose value says what it is of, and below it its keys.
const basesPrefix = "/kanzen/bases/"

// bases has those in memory.
type bases struct {
	making singleflight.Group // by what they depend on
	mu     sync.Mutex
	byID   map[string]*base // guarded by mu, as are their keys until they are read
}

// base is what planes begin with.
type base struct {
	ID string `json:"-"`
	// Of is what it depends on.
	Of   string `json:"of"`
	keys []baseKey

	mu sync.Mutex
	// objects are those of keys that are the same in each plane, as long as a plane that has them is awake; guarded by mu.
	objects weak.Pointer[engine.Common]
}

// baseKey is one key of a base.
type baseKey struct {
	key   string // below the prefix
	value []byte
	uids  []int // where there are UIDs in the value that are not the same in each plane
	times []int // where there are times of creation: their seconds, as a varint of five bytes
}

// personal are the keys of objects that are not the same in each plane, so that they are in no base.
var personal = []string{"configmaps/kube-system/extension-apiserver-authentication", "leases/", "events/", "masterleases/"}

// common are the kinds whose objects are the same in each plane, to the byte: what is decoded of them can be shared.
var common = []string{"clusterroles/", "clusterrolebindings/", "roles/", "rolebindings/", "prioritylevelconfigurations/", "flowschemas/",
	"priorityclasses/", "apiregistration.k8s.io/", "apiextensions.k8s.io/"}

func begins(key string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// fingerprint is what a base depends on.
func (f *Fleet) fingerprint(template string) string {
	return fingerprint(f.firstObjects(), template, string(f.ca))
}

// firstObjects is what those depend on that every plane makes of itself.
func firstObjects(cfg *config.Plane) string {
	return fingerprint(version.Kanzen, cfg.FeatureGates, cfg.Versions(), cfg.Controllers, cfg.ServiceClusterIPRange, cfg.RuntimeConfig)
}

func fingerprint(of ...any) string {
	sum := sha256.Sum256(fmt.Append(nil, of...))
	return hex.EncodeToString(sum[:])
}

// baseFor returns the base of new planes of a template, which is made if there is none yet; nil: there are no bases.
func (f *Fleet) baseFor(ctx context.Context, t *template) (*base, error) {
	if f.cfg.EncryptionConfigFile != "" {
		return nil, nil
	}
	of := f.fingerprint(t.fingerprint())
	made, err, _ := f.bases.making.Do(of, func() (any, error) {
		if b := f.bases.of(of); b != nil {
			return b, nil
		}
		id, err := uuid.NewV7() // which tells when
		if err != nil {
			return nil, err
		}
		b := &base{ID: id.String(), Of: of}
		if err := f.makeBase(ctx, b, t); err != nil {
			return nil, fmt.Errorf("make what planes begin with: %w", err)
		}
		f.bases.mu.Lock()
		defer f.bases.mu.Unlock()
		f.bases.byID[b.ID] = b
		return b, nil
	})
	if err != nil {
		return nil, err
	}
	return made.(*base), nil
}

// of returns the base that depends on something; nil: there is none.
func (b *bases) of(what string) *base {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, found := range b.byID {
		if found.Of == what {
			return found
		}
	}
	return nil
}

// baseOf returns the base that a plane was made with.
func (f *Fleet) baseOf(ctx context.Context, id string) (*base, error) {
	f.bases.mu.Lock()
	defer f.bases.mu.Unlock()
	b := f.bases.byID[id]
	if b == nil { // another server has made it
		b = &base{ID: id}
		if found, err := f.readBase(ctx, b); err != nil || !found {
			return nil, errors.Join(err, fmt.Errorf("there is no base %s", id))
		}
		f.bases.byID[id] = b
	}
	if b.keys == nil {
		prefix := basesPrefix + id + "/"
		var all []baseKey
		_, err := f.on.DB.Range(ctx, kv.Range{Key: prefix, End: kv.PrefixEnd(prefix)}, func(k kv.KeyValue) bool {
			all = append(all, baseKey{key: strings.TrimPrefix(string(k.Key), prefix), value: k.Value})
			return true
		})
		if err != nil {
			return nil, err
		}
		b.index(all)
	}
	return b, nil
}

// common returns the objects of the keys that are the same in each plane. Who holds them keeps them for the others.
func (b *base) common() *engine.Common {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.objects.Value(); c != nil {
		return c
	}
	c := engine.NewCommon(func(yield func([]byte) bool) {
		for n := range b.keys {
			if k := &b.keys[n]; begins(k.key, common) && !yield(k.value) {
				return
			}
		}
	})
	b.objects = weak.Make(c)
	return c
}

// readBase reads what a base is of; false: there is none, or it is not finished.
func (f *Fleet) readBase(ctx context.Context, b *base) (found bool, err error) {
	_, err = f.on.DB.Range(ctx, kv.Range{Key: basesPrefix + b.ID}, func(k kv.KeyValue) bool {
		found = json.Unmarshal(k.Value, b) == nil
		return false
	})
	return found, err
}

// unfinished is how old something must be that was not finished for nobody to be at it.
const unfinished = time.Hour

// abandoned reports whether a base that is not finished is so old: its ID tells when it was begun.
func (f *Fleet) abandoned(id string) bool {
	u, err := uuid.Parse(id)
	if err != nil {
		return true
	}
	seconds, _ := u.Time().UnixTime()
	return f.on.Clock.Since(time.Unix(seconds, 0)) > unfinished
}

// findBases reads which bases there are, and removes what was left of those that were not finished.
func (f *Fleet) findBases(ctx context.Context) error {
	f.bases.byID = map[string]*base{}
	for from := basesPrefix; ; {
		var next *kv.KeyValue
		_, err := f.on.DB.Range(ctx, kv.Range{Key: from, End: kv.PrefixEnd(basesPrefix), Limit: 1}, func(k kv.KeyValue) bool { next = &k; return false })
		if err != nil {
			return err
		}
		if next == nil {
			break
		}
		id := strings.TrimPrefix(string(next.Key), basesPrefix)
		id, below, _ := strings.Cut(id, "/")
		if b := (&base{ID: id}); below == "" && json.Unmarshal(next.Value, b) == nil {
			f.bases.byID[id] = b
		} else if f.abandoned(id) {
			if err := f.erase(ctx, basesPrefix+id+"/"); err != nil {
				return err
			}
		}
		from = kv.PrefixEnd(basesPrefix + id + "/")
	}
	return f.clear(ctx)
}

// clear removes what was left of planes that were to make a base.
func (f *Fleet) clear(ctx context.Context) error {
	left := map[string]bool{}
	_, err := f.on.DB.Range(ctx, kv.Range{Key: Prefix + maker, End: kv.PrefixEnd(Prefix + maker)}, func(k kv.KeyValue) bool {
		id, _, _ := strings.Cut(strings.TrimPrefix(string(k.Key), Prefix+maker), "/")
		left[id] = f.abandoned(id)
		return true
	})
	for id, old := range left {
		if err == nil && old {
			err = f.erase(ctx, Prefix+maker+id+"/")
		}
	}
	return err
}

// maker begins the names of prefixes at which bases are made.
const maker = "base-"

// makeBase has a plane make its first objects, and those of the template that are the same in all planes, and stores what it has then.
func (f *Fleet) makeBase(ctx context.Context, b *base, t *template) (err error) {
	prefix := Prefix + maker + b.ID
	defer func() { err = errors.Join(err, f.erase(context.WithoutCancel(ctx), prefix+"/")) }()
	began := f.on.Clock.Now().Unix()
	set, err := pki.NewShared(maker, f.on.Clock.Now())
	if err != nil {
		return err
	}
	kinds, err := exports.Definitions()
	if err != nil {
		return err
	}
	cfg := f.cfg.Hosted(prefix)
	p := server.New(cfg, f.on.Hosted(f.on.DB, f.dial), server.Seams{Kinds: kinds, Keys: func(context.Context) (*keys.Keys, error) {
		return keys.Of(set, cfg, f.on.Address(), f.ca, f.on.Clock.Now(), f.log)
	}})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*bootTimeout)
	defer cancel()
	if err := f.settle(ctx, p, t); err != nil {
		return err
	}
	var all []baseKey
	_, err = f.on.DB.Range(ctx, kv.Range{Key: prefix + "/", End: kv.PrefixEnd(prefix + "/")}, func(k kv.KeyValue) bool {
		key := strings.TrimPrefix(string(k.Key), prefix+"/")
		switch {
		case begins(key, personal):
		case begins(key, common):
			all = append(all, baseKey{key: key, value: k.Value})
		default:
			all = append(all, baseKey{key: key, value: anonymous(k.Value, began, f.on.Clock.Now().Unix())})
		}
		return true
	})
	if err != nil {
		return err
	}
	b.index(all)
	return f.storeBase(ctx, b)
}

// settle runs a plane until it has its first objects and those of a template.
func (f *Fleet) settle(ctx context.Context, p *server.Plane, t *template) (err error) {
	if err := p.Start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	own := through(p.Transport(controlplane.Itself()))
	if err := t.apply(ctx, f, own, t.same); err != nil {
		return err
	}
	return f.quiet(ctx, p, own)
}

// storeBase stores the keys first, so that one that was not finished is none.
func (f *Fleet) storeBase(ctx context.Context, b *base) error {
	for some := range slices.Chunk(b.keys, kv.MaxOps) {
		var txn kv.Txn
		for _, k := range some {
			txn.Then = append(txn.Then, kv.Op{Key: basesPrefix + b.ID + "/" + k.key, Value: k.value})
		}
		if _, err := f.on.DB.Commit(ctx, txn); err != nil {
			return err
		}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	_, err = f.on.DB.Commit(ctx, kv.Txn{Then: []kv.Op{{Key: basesPrefix + b.ID, Value: text}}})
	return err
}

const uidLength = 36

// uidPattern finds UIDs, and ownUID that of an object in its metadata: field 5 in protobuf, a string of 36 bytes, or "uid" in JSON.
var (
	uidPattern = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	ownUID     = regexp.MustCompile(`(?:\*\$|"uid":")([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})`)
)

// marker stands in the base for a time of creation: a second that no clock of a server shows (in the year 2103), as field 1 of a time
// in protobuf.
var marker = binary.AppendUvarint([]byte{0x08}, 1<<32-1)

// anonymous replaces the times of creation, which are from one second to another, by the marker, which has the same length.
func anonymous(value []byte, from, to int64) []byte {
	value = bytes.Clone(value)
	for t := from; t <= to; t++ {
		value = bytes.ReplaceAll(value, binary.AppendUvarint([]byte{0x08}, uint64(t)), marker)
	}
	return value
}

// index finds what is not the same in each plane. Of UIDs these are those of objects of the base, wherever they are named: other texts
// that look like one are somebody's data.
func (b *base) index(all []baseKey) {
	own := map[string]bool{}
	for _, k := range all {
		if begins(k.key, common) {
			continue
		}
		for _, found := range ownUID.FindAllSubmatch(k.value, -1) {
			own[string(found[1])] = true
		}
	}
	for n := range all {
		k := &all[n]
		if begins(k.key, common) {
			continue
		}
		for from := 0; ; {
			at := bytes.Index(k.value[from:], marker)
			if at < 0 {
				break
			}
			k.times = append(k.times, from+at+1)
			from += at + len(marker)
		}
		for _, at := range uidPattern.FindAllIndex(k.value, -1) {
			if own[string(k.value[at[0]:at[1]])] {
				k.uids = append(k.uids, at[0])
			}
		}
	}
	b.keys = all
}

// personalized is a base as one plane sees it: UIDs are derived from its own, and what it begins with is as old as it is.
type personalized struct {
	*base
	uid uuid.UUID
	age []byte // when it was created
}

// personalize returns the base of a plane.
func (b *base) personalize(uid types.UID, created time.Time) (*personalized, error) {
	id, err := uuid.Parse(string(uid))
	return &personalized{b, id, binary.AppendUvarint(nil, uint64(created.Unix()))}, err
}

// Len is part of layer.Base.
func (p *personalized) Len() int { return len(p.keys) }

// Key is part of layer.Base.
func (p *personalized) Key(n int) string { return p.keys[n].key }

// Value is part of layer.Base.
func (p *personalized) Value(n int) []byte {
	k := &p.keys[n]
	if len(k.uids)+len(k.times) == 0 {
		return k.value
	}
	value := bytes.Clone(k.value)
	for _, at := range k.uids {
		copy(value[at:], uuid.NewSHA1(p.uid, value[at:at+uidLength]).String())
	}
	for _, at := range k.times {
		copy(value[at:], p.age)
	}
	return value
}

// quiet waits until the controllers of a new plane have done their part.
func (f *Fleet) quiet(ctx context.Context, p *server.Plane, own api) error {
	for controller, path := range map[string]string{
		"serviceaccount-controller":                "/api/v1/namespaces/%s/serviceaccounts/default",
		"root-ca-certificate-publisher-controller": "/api/v1/namespaces/%s/configmaps/kube-root-ca.crt",
	} {
		if !controllers.Enabled(controller, f.cfg.Controllers) {
			continue
		}
		for _, ns := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
			for own.Do(ctx, http.MethodGet, fmt.Sprintf(path, ns), "", nil, nil) != nil {
				if err := f.pause(ctx); err != nil {
					return err
				}
			}
		}
	}
	for calm := 0; calm < calmLooks; calm++ {
		if due := p.Due(); !due.IsZero() && !due.After(f.on.Clock.Now()) {
			calm = 0
		}
		if err := f.pause(ctx); err != nil {
			return err
		}
	}
	return nil
}

// calmLooks is how often in a row, with a pause between, the controllers must have nothing to do.
const calmLooks = 20

func (f *Fleet) pause(ctx context.Context) error {
	select {
	case <-f.on.Clock.After(time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
