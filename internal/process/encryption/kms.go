package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"k8s.io/utils/clock"
)

// writeTTL is how long a seed is used for writing after the plugin was last seen to be well, with the same key. It is
// short so that, a while after the plugin's key has changed, nothing is written with the old one any more.
const writeTTL = 3 * time.Minute

// kms encrypts with seeds that a plugin encrypts.
type kms struct {
	name    string
	plugin  *plugin
	clock   clock.WithTicker
	log     *slog.Logger
	metrics *metrics
	seeds   *seeds
	current atomic.Pointer[writing] // nil: the plugin was never well

	mu     sync.Mutex // held by one check at a time
	result error      // of the last check; guarded by mu, as is the rest
	until  time.Time  // when result expires
	api    string     // version of the API that the plugin has told
}

// writing is what values are encrypted with. It is immutable.
type writing struct {
	seed    seed
	keyID   string
	keyHash string
	tail    []byte // the encoded envelope
	expires time.Time
}

func newKMS(name string, p *plugin, clk clock.WithTicker, log *slog.Logger, m *metrics) *kms {
	return &kms{name: name, plugin: p, clock: clk, log: log, metrics: m, seeds: newSeeds(name, p, seedsKept, clk, m)}
}

func (k *kms) close() { k.plugin.close() }

var errNoSeed = errors.New("got unexpected nil transformer")

func (k *kms) seal(ctx context.Context, at place, dst, value []byte) ([]byte, error) {
	w := k.current.Load()
	if w == nil {
		return nil, errNoSeed
	}
	if now := k.clock.Now(); now.After(w.expires) {
		return nil, fmt.Errorf("encryptedDEKSource with keyID hash %q expired at %s (current time is %s)", w.keyHash, w.expires.Format(time.RFC3339), now.Format(time.RFC3339))
	}
	dst = appendDataHead(dst, w.seed.sealed(len(value)))
	dst, err := w.seed.seal(ctx, at, dst, value)
	if err != nil {
		return nil, err
	}
	k.metrics.keyUsed(toStorage, k.name, w.keyHash)
	return append(dst, w.tail...), nil
}

// open decrypts a value. It needs the plugin only for seeds that are not known, so that reading goes on without it.
func (k *kms) open(ctx context.Context, at place, data []byte) ([]byte, bool, error) {
	e, sealed, err := parse(data)
	if err != nil {
		return nil, false, err
	}
	source, err := k.seeds.get(ctx, &e)
	if err != nil {
		return nil, false, err
	}
	k.metrics.keyUsed(fromStorage, k.name, source.keyHash)
	value, _, err := source.open(ctx, at, sealed)
	if err != nil {
		k.seeds.wrong(source, err)
		return nil, false, err
	}
	source.proven.Store(true)
	at.opened(Source{Plugin: source.keyHash})
	w := k.current.Load()
	return value, w == nil || e.keyID != w.keyID || e.sourceType != sourceSeed, nil
}

// rotate takes a new seed if the plugin's key is not that of the current one, and otherwise goes on using that. A
// failure leaves the current one in use until it expires.
func (k *kms) rotate(ctx context.Context, keyID string) error {
	w := k.current.Load()
	expires := k.clock.Now().Add(writeTTL) // counted from before the plugin is asked
	if w != nil && w.keyID == keyID {
		next := *w
		next.expires = expires
		k.current.Store(&next)
		return nil
	}
	uid := uuid.NewString()
	next, e, err := k.newWriting(ctx, uid)
	if err == nil && e.keyID == keyID {
		next.expires = expires
		k.seeds.put(e, next.seed)
		k.current.Store(next)
		k.log.Info("encrypting with a new seed", "kms", k.name, "keyIDHash", next.keyHash)
		return nil
	}
	var was writing
	errState := errNoSeed
	if w != nil {
		was, errState = *w, nil
	}
	return fmt.Errorf("failed to rotate DEK uid=%q, useSeed=true, errState=%w, errGen=%w, statusKeyIDHash=%q, encryptKeyIDHash=%q, stateKeyIDHash=%q, expirationTimestamp=%s",
		uid, orNone(errState), orNone(err), hashOf(keyID), hashOf(e.keyID), was.keyHash, was.expires.Format(time.RFC3339))
}

// orNone makes an error that says that there is none.
func orNone(err error) error {
	if err == nil {
		return errNone
	}
	return err
}

var errNone = errors.New("<nil>")

var errGarbage = errors.New("the KMS plugin decrypts to something else than it has encrypted")

// newWriting makes a seed and has the plugin encrypt it.
func (k *kms) newWriting(ctx context.Context, uid string) (*writing, *envelope, error) {
	began := k.clock.Now()
	s := make(seed, seedSize)
	fill(s)
	k.metrics.seedSeconds.Observe(k.clock.Since(began).Seconds())
	answer, err := k.plugin.encrypt(ctx, uid, s)
	if err != nil {
		return nil, &envelope{}, fmt.Errorf("failed to encrypt DEK, error: %w", err)
	}
	e := &envelope{keyID: answer.KeyId, source: answer.Ciphertext, annotations: answer.Annotations, sourceType: sourceSeed}
	if err := e.validate(); err != nil {
		return nil, e, err
	}
	// What a plugin could not decrypt again would be lost with everything that the seed encrypts.
	again, err := k.plugin.decrypt(ctx, uid, e)
	if err != nil {
		return nil, e, fmt.Errorf("failed to decrypt DEK again, error: %w", err)
	}
	if !bytes.Equal(again, s) {
		return nil, e, errGarbage
	}
	return &writing{seed: s, keyID: e.keyID, keyHash: hashOf(e.keyID), tail: e.tail()}, e, nil
}
