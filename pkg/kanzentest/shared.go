package kanzentest

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/controllers"
	"github.com/kanzen-io/kanzen/internal/process"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/keys"
	"github.com/kanzen-io/kanzen/internal/store/memory"
)

// This file has what the servers of a process share, so that only the first one takes the time for it. Nobody can see
// by it what another server does.

// parts are what servers share.
type parts struct {
	*process.Shared
	keys *keyFiles

	mu    sync.Mutex
	seeds map[string]*seed // by settings; guarded by mu
}

// sharedParts are made by the first server of a process, and never replaced. This is the one thing in the package that
// servers have in common: tests call Start(t) with nothing in their hands that could carry it, and without it each server
// would take the time of the first. It is a cache of what is the same for all (compiled schemas and expressions, keys of the
// authorities, the first objects by settings): a server is the same without it. TestOwnIdentities shows that nothing of one
// server is in another.
var sharedParts = sync.OnceValue(func() *parts {
	return &parts{Shared: process.NewShared(), keys: &keyFiles{}, seeds: map[string]*seed{}}
})

// seed returns the log that servers with these settings begin with.
func (p *parts) seed(o *Options) *seed {
	key := fmt.Sprintf("%q %q", o.Controllers, o.Flags)
	if o.Controllers == nil {
		key = "*" + key
	}
	if o.Clock != nil && time.Until(o.Clock.Now()).Abs() > time.Hour {
		return newSeed() // the times in its objects are its own
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.seeds[key]
	if s == nil {
		s = newSeed()
		if len(p.seeds) < maxSeeds { // a program that tries many settings is not to fill its memory
			p.seeds[key] = s
		}
	}
	return s
}

// maxSeeds bounds for how many settings the first objects are kept.
const maxSeeds = 64

// seed is the log of a server that has its first objects. The first server with some settings makes it.
type seed struct {
	first chan struct{} // a token: whoever takes it makes the seed
	made  chan struct{} // closed when it is made
	from  memory.Snapshot
	// uids are the places of UIDs, by key: each server has its own.
	uids map[string][]int
}

func newSeed() *seed {
	s := &seed{first: make(chan struct{}, 1), made: make(chan struct{})}
	s.first <- struct{}{}
	return s
}

// log returns a log, and whether it begins with the seed: there may be none yet.
func (s *seed) log(c clock.WithDelayedExecution) (_ *memory.DB, grown bool) {
	select {
	case <-s.made:
	default:
		return memory.New(c), false
	}
	own := map[string]string{}
	return memory.NewFrom(c, s.from.Map(func(key string, value []byte) []byte {
		places := s.uids[key]
		if len(places) == 0 {
			return value
		}
		value = slices.Clone(value)
		for _, at := range places {
			was := string(value[at : at+uidLength])
			if own[was] == "" {
				own[was] = uuid.NewString()
			}
			copy(value[at:], own[was])
		}
		return value
	})), true
}

const uidLength = 36

// grow makes the seed of a log whose server has settled.
func (s *seed) grow(db *memory.DB) {
	pattern := regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	s.uids = map[string][]int{}
	s.from = db.Snapshot().Map(func(key string, value []byte) []byte {
		for _, at := range pattern.FindAllIndex(value, -1) {
			s.uids[key] = append(s.uids[key], at[0])
		}
		return value
	})
	close(s.made)
}

// settle waits until the controllers of a server without a seed have made what belongs to an empty cluster, and makes
// the seed of later servers of it.
func (s *Server) settle(ctx context.Context, from *seed) error {
	if from == nil || s.settled {
		return nil
	}
	if err := s.quiet(ctx); err != nil {
		return err
	}
	select {
	case <-from.first:
		from.grow(s.memory)
	default: // another server makes it
	}
	return nil
}

// quietFor is how long nothing is written once the controllers have done their part.
const quietFor = 5 * time.Millisecond

// quiet waits until every namespace has what controllers put into it, flow schemas have their conditions, controllers have nothing to do,
// and nothing more is written.
func (s *Server) quiet(ctx context.Context) error {
	c, err := s.clients()
	if err != nil {
		return err
	}
	for _, wanted := range []struct{ controller, resource, name string }{
		{"serviceaccount-controller", "serviceaccounts", "default"},
		{"root-ca-certificate-publisher-controller", "configmaps", "kube-root-ca.crt"},
	} {
		if !controllers.Enabled(wanted.controller, s.cfg.Controllers) {
			continue
		}
		for _, ns := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
			gvr := corev1.SchemeGroupVersion.WithResource(wanted.resource)
			if err := poll(ctx, func() (bool, error) {
				_, err := c.Resource(gvr).Namespace(ns).Get(ctx, wanted.name, metav1.GetOptions{})
				return err == nil, nil //nolint:nilerr // it is asked again
			}); err != nil {
				return fmt.Errorf("%s %s/%s: %w", wanted.resource, ns, wanted.name, err)
			}
		}
	}
	schemas := c.Resource(flowcontrolv1.SchemeGroupVersion.WithResource("flowschemas"))
	if err := poll(ctx, func() (bool, error) {
		list, err := schemas.List(ctx, metav1.ListOptions{})
		if err != nil {
			return apierrors.IsNotFound(err), nil // they are not served, or it is asked again
		}
		return !slices.ContainsFunc(list.Items, dangling), nil
	}); err != nil {
		return fmt.Errorf("conditions of flow schemas: %w", err)
	}
	if controllers.Enabled("clusterrole-aggregation-controller", s.cfg.Controllers) {
		roles := c.Resource(rbacv1.SchemeGroupVersion.WithResource("clusterroles"))
		if err := poll(ctx, func() (bool, error) { return aggregated(ctx, roles, "view", "edit", "admin"), nil }); err != nil {
			return fmt.Errorf("aggregated cluster roles: %w", err)
		}
	}
	last, since := int64(-1), time.Now()
	return poll(ctx, func() (bool, error) {
		rev, err := s.memory.Head(ctx)
		due := s.plane.Due() // a controller may be at work, and write later
		if rev != last || !due.IsZero() && !due.After(s.options.Clock.inner().Now()) {
			last, since = rev, time.Now()
		}
		return time.Since(since) > quietFor, err
	})
}

// dangling says whether the condition of a flow schema is yet to be written, or was written before the server knew the schema's level.
func dangling(schema unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(schema.Object, "status", "conditions")
	return !slices.ContainsFunc(conditions, func(c any) bool {
		condition, _ := c.(map[string]any)
		return condition["type"] == string(flowcontrolv1.FlowSchemaConditionDangling) && condition["status"] == string(flowcontrolv1.ConditionFalse)
	})
}

// aggregated says whether each role has the rules of the one before it.
func aggregated(ctx context.Context, roles dynamic.ResourceInterface, names ...string) bool {
	var before []any
	for n, name := range names {
		role, err := roles.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && n == 0 {
			return true // this server has no such roles
		}
		if err != nil {
			return false
		}
		rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
		has := func(rule any) bool {
			return slices.ContainsFunc(rules, func(r any) bool { return reflect.DeepEqual(r, rule) })
		}
		if len(rules) == 0 || slices.ContainsFunc(before, func(rule any) bool { return !has(rule) }) {
			return false
		}
		before = rules
	}
	return true
}

// poll asks until f says yes, fails, or ctx ends.
func poll(ctx context.Context, f func() (bool, error)) error {
	for pause := 100 * time.Microsecond; ; pause = min(2*pause, 10*time.Millisecond) {
		if done, err := f(); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}

// keyFiles are the keys and certificates that the servers of a process share: those of the certificate authorities and
// what they sign. The keys of service accounts are not among them.
type keyFiles struct {
	once  sync.Once
	files map[string][]byte
	err   error
}

// writeTo puts the keys, and a new one for service accounts, where the server looks for its own.
func (k *keyFiles) writeTo(root *config.Process) error {
	k.once.Do(func() { k.files, k.err = makeKeys(root) })
	if k.err != nil {
		return k.err
	}
	dir := filepath.Join(root.DataDir, keys.Folder)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	signing, err := newKey()
	if err != nil {
		return err
	}
	var errs []error
	for name, data := range k.files {
		if name == "sa.key" {
			data = signing
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	return errors.Join(errs...)
}

// makeKeys has a server's keys made in a directory and reads them.
func makeKeys(root *config.Process) (_ map[string][]byte, err error) {
	own := *root
	if own.DataDir, err = os.MkdirTemp("", "kanzentest-keys-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(own.DataDir)) }()
	if _, err := keys.Make(&own, 0, clock.RealClock{}); err != nil {
		return nil, err
	}
	dir := filepath.Join(own.DataDir, keys.Folder)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// newKey makes a private key, in PEM.
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
}
