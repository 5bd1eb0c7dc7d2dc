package planes

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// agent is the User-Agent of this package's requests, and so its field manager.
const agent = "kanzen-planes"

// api makes requests of an API.
type api struct {
	http.RoundTripper
	at string // its URL; "": RoundTripper knows
}

// The media types of patches.
const (
	applyPatch = "application/apply-patch+yaml"
	mergePatch = "application/merge-patch+json"
)

// do makes a request and decodes the answer into out, if that is not nil. A refusal is an *apierrors.StatusError.
func (a api) do(ctx context.Context, method, path, contentType string, body, out any) error {
	resp, err := a.send(ctx, method, path, contentType, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		var status metav1.Status
		if json.Unmarshal(data, &status) != nil || status.Code == 0 {
			status = metav1.Status{Status: metav1.StatusFailure, Code: int32(resp.StatusCode), Message: string(data)}
		}
		return &apierrors.StatusError{ErrStatus: status}
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

func (a api) send(ctx context.Context, method, path, contentType string, body any) (*http.Response, error) {
	var content io.Reader
	if body != nil {
		data, ok := body.([]byte)
		if !ok {
			var err error
			if data, err = json.Marshal(body); err != nil {
				return nil, err
			}
		}
		content = bytes.NewReader(data)
	}
	req, err := http.NewRequestWithContext(ctx, method, cmp.Or(a.at, "https://root")+path, content)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", agent)
	if body != nil {
		req.Header.Set("Content-Type", contentType)
	}
	return a.RoundTrip(req)
}

// create creates an object; that it exists is no error.
func (a api) create(ctx context.Context, path string, obj any) error {
	err := a.do(ctx, http.MethodPost, path, "application/json", obj, nil)
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
		err := a.do(ctx, http.MethodGet, planesPath, "", nil, &list)
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
	resp, err := a.send(ctx, http.MethodGet, planesPath+"?watch=true&allowWatchBookmarks=true&resourceVersion="+from, "", nil)
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
