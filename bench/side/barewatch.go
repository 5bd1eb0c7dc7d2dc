package side

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
)

// relay is the floor under a watch: it sends an event of one to all, with no more behind it than a channel for each. A PATCH
// makes an event, a GET with watch gets all from then on, any other GET says from where to watch.
type relay struct {
	event []byte // as a server sent it, with an annotation that numbers it

	mu       sync.Mutex
	watchers map[chan []byte]<-chan struct{} // what is closed when the watcher goes
}

// waiting is how many events a watcher may be behind before a PATCH waits for it.
const waiting = 64

func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Method == http.MethodPatch:
		r.patch(w, req)
	case req.URL.Query().Has("watch"):
		r.watch(w, req)
	default:
		_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"1"}}`))
	}
}

func (r *relay) patch(w http.ResponseWriter, req *http.Request) {
	var patch struct {
		Metadata struct{ Annotations map[string]string }
	}
	if err := json.NewDecoder(req.Body).Decode(&patch); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	event := r.event
	for name, value := range patch.Metadata.Annotations {
		mark := fmt.Appendf(nil, "%q:\"", name)
		before, rest, _ := bytes.Cut(event, mark)
		_, after, ok := bytes.Cut(rest, []byte{'"'})
		if !ok {
			http.Error(w, "the event has no annotation "+name, http.StatusBadRequest)
			return
		}
		event = bytes.Join([][]byte{before, mark, []byte(value + `"`), after}, nil)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for c, gone := range r.watchers {
		select {
		case c <- event:
		case <-gone:
		}
	}
}

func (r *relay) watch(w http.ResponseWriter, req *http.Request) {
	c := make(chan []byte, waiting)
	r.mu.Lock()
	r.watchers[c] = req.Context().Done()
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, c)
	}()
	flusher := http.NewResponseController(w)
	for {
		if err := flusher.Flush(); err != nil {
			return
		}
		select {
		case event := <-c:
			if _, err := w.Write(event); err != nil {
				return
			}
		case <-req.Context().Done():
			return
		}
	}
}
