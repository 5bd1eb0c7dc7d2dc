package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kanzen-io/kanzen/internal/wire/apiclient"
)

// agent is the User-Agent of this package's requests, and so its field manager.
const agent = "kanzen-planes"

// api is the API of the root, or of a plane.
type api struct{ apiclient.Client }

// through returns the API behind a transport of this process.
func through(t http.RoundTripper) api { return api{apiclient.Client{RoundTripper: t, Agent: agent}} }

// create creates an object; that it exists is no error.
func (a api) create(ctx context.Context, path string, obj any) error {
	err := a.Do(ctx, http.MethodPost, path, "application/json", obj, nil)
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

const planesPath = "/apis/" + Group + "/" + Version + "/planes"

// change is an event of a watch of Planes.
type change struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// errBehind says that a watch cannot go on where it was.
var errBehind = errors.New("the watch of planes is behind")

// follow calls all with every Plane, and then set and gone with each that changes, until ctx ends; all is called anew if a watch
// cannot go on.
func (a api) follow(ctx context.Context, after func(time.Duration) <-chan time.Time, all func([]Plane), set func(*Plane), gone func(*Plane), failed func(error)) {
	for ctx.Err() == nil {
		var list struct {
			metav1.ListMeta `json:"metadata"`
			Items           []Plane `json:"items"`
		}
		err := a.Do(ctx, http.MethodGet, planesPath, "", nil, &list)
		for err == nil {
			if list.Items != nil {
				all(list.Items)
				list.Items = nil
			}
			list.ResourceVersion, err = a.watch(ctx, list.ResourceVersion, set, gone)
		}
		if ctx.Err() == nil && !errors.Is(err, errBehind) {
			failed(err)
			select {
			case <-after(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// watch watches from a revision on until the watch ends, and returns the revision to go on from.
func (a api) watch(ctx context.Context, from string, set, gone func(*Plane)) (string, error) {
	resp, err := a.Send(ctx, http.MethodGet, planesPath+"?watch=true&allowWatchBookmarks=true&resourceVersion="+from, "", nil)
	if err != nil {
		return from, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return from, fmt.Errorf("watch planes: %s: %w", resp.Status, errBehind)
	}
	for events := json.NewDecoder(resp.Body); ; {
		var c change
		if err := events.Decode(&c); err != nil {
			if ctx.Err() != nil {
				return from, ctx.Err()
			}
			return from, nil // the watch has ended, as watches do
		}
		var p Plane
		if err := json.Unmarshal(c.Object, &p); err != nil {
			return from, err
		}
		switch c.Type {
		case "ADDED", "MODIFIED":
			set(&p)
		case "DELETED":
			gone(&p)
		case "ERROR":
			return from, errBehind
		}
		from = p.ResourceVersion
	}
}
