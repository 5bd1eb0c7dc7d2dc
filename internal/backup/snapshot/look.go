package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/process/config"
	"github.com/kanzen-io/kanzen/internal/process/datadir"
	"github.com/kanzen-io/kanzen/internal/store/kv"
)

// SpacePath is where a server says what takes the room of its database. The verb is "post", as for a snapshot: the answer has names of all objects.
const SpacePath = "/kanzen/space"

// SpaceHandler serves that, to one client at a time.
type SpaceHandler struct {
	look  func(ctx context.Context) (*Space, error)
	clock clock.PassiveClock
	busy  chan struct{} // holds one thing while somebody looks, who may use what is below
	log   *slog.Logger

	growth growth
	last   []byte // the newest answer
	at     time.Time
	ago    time.Duration // with what last was compared
}

// NewSpaceHandler makes a SpaceHandler of what looks at the database.
func NewSpaceHandler(look func(ctx context.Context) (*Space, error), c clock.PassiveClock, log *slog.Logger) *SpaceHandler {
	return &SpaceHandler{look: look, clock: c, busy: make(chan struct{}, 1), log: log}
}

// ServeHTTP answers with a Space. The error is a refusal.
func (h *SpaceHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.serve(w, r); err != nil {
		engine.WriteError(w, r, schema.GroupVersion{}, err)
	}
}

func (h *SpaceHandler) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: "space"}, r.Method)
	}
	recent, err := span(r, "recent", 0)
	if err != nil {
		return err
	}
	ago, err := span(r, "since", growthEvery)
	if err != nil {
		return err
	}
	text, err := h.find(r.Context(), recent, ago)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // the client is gone if this fails
	return nil
}

// span reads a parameter that is a time.
func span(r *http.Request, name string, usual time.Duration) (time.Duration, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return usual, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, apierrors.NewBadRequest(fmt.Sprintf("%s: %q is no duration: 1h, 30m", name, text))
	}
	return d, nil
}

// find looks at the space, and compares it with what there was some time ago. If somebody has looked recently, what that one was told will do.
func (h *SpaceHandler) find(ctx context.Context, recent, ago time.Duration) ([]byte, error) {
	select {
	case h.busy <- struct{}{}:
		defer func() { <-h.busy }()
	default:
		return nil, apierrors.NewTooManyRequests("somebody else looks at the space right now", 5)
	}
	if h.last != nil && h.ago == ago && h.clock.Since(h.at) < recent {
		return h.last, nil
	}
	found, err := h.look(ctx)
	if err != nil {
		return nil, err
	}
	now := h.clock.Now()
	h.growth.add(found, now, ago)
	text, err := json.Marshal(found)
	if err != nil {
		return nil, err
	}
	h.log.Info("looked at the space of the database", "keys", found.Keys, "records", found.Records.Objects+found.Records.OldRecords, "seconds", found.Seconds)
	h.last, h.at, h.ago = append(text, '\n'), now, ago
	return h.last, nil
}

// Paced reads records at its leisure: it takes half of a core at most, so that a server has time for its requests.
type Paced struct{ kv.Recorded }

// paceRecords is after how many records it is looked whether to rest, and paceWork how long the work between two rests is at least.
const paceRecords, paceWork = 256, 5 * time.Millisecond

// Records is part of kv.Recorded.
func (p Paced) Records(ctx context.Context, how kv.Reading, each func(*kv.Record) error) error {
	n, began := 0, time.Now()
	how.Step = func() error {
		if n++; n%paceRecords > 0 {
			return nil
		}
		worked := time.Since(began)
		if worked < paceWork {
			return nil
		}
		select {
		case <-time.After(worked):
		case <-ctx.Done():
			return ctx.Err()
		}
		began = time.Now()
		return nil
	}
	return p.Recorded.Records(ctx, how, each)
}

// Space asks a server what takes the room of its database.
func (s *Server) Space(ctx context.Context) (*Space, error) {
	resp, err := s.do(ctx, http.MethodPost, SpacePath, nil, nil)
	if apierrors.IsNotFound(err) {
		return nil, errors.New("this server has no database inside, or is no kanzen: save a snapshot and name its file")
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out := &Space{}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return nil, fmt.Errorf("the server's answer: %w", err)
	}
	return out, nil
}

// SpaceOf looks at the database in a data directory, on which no server must run. Errors: datadir.ErrInUse.
func (k *Kinds) SpaceOf(ctx context.Context, dataDir string) (out *Space, err error) {
	err = stopped(ctx, dataDir, func(_ string, db moving) error {
		if out, err = k.Space(ctx, db); err != nil {
			return err
		}
		out.Disk, err = DiskOf(ctx, db)
		return err
	})
	if err == nil {
		out.History = keptIn(dataDir)
	}
	return out, err
}

// DiskOf is what a database takes on the disk.
func DiskOf(ctx context.Context, db interface {
	Size(ctx context.Context) (kv.Size, error)
}) (*Disk, error) {
	size, err := db.Size(ctx)
	if err != nil {
		return nil, err
	}
	return &Disk{Bytes: size.Bytes, Free: size.Bytes - size.InUse}, nil
}

// stopped has f use the database in a data directory, on which no server must run.
func stopped(ctx context.Context, dataDir string, f func(engine string, db moving) error) (err error) {
	found := config.EnginesIn(dataDir)
	if len(found) != 1 {
		return fmt.Errorf("%s has %d databases; one is needed", dataDir, len(found))
	}
	unlock, err := datadir.Exclusive(dataDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	db, err := openEngine(ctx, found[0], filepath.Join(dataDir, found[0]))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return f(found[0], db)
}
