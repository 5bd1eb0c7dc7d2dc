package planes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"sigs.k8s.io/multicluster-runtime/pkg/multicluster"
)

// bound is a plane that has bound an export, as the server tells of it.
type bound struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// change is a line of the watch of these planes: first there are all of them, then a BOOKMARK, then what changes.
type change struct {
	Type   string `json:"type"`
	Object bound  `json:"object"`
}

// errNoExport is that there is no such export. There may be one later.
var errNoExport = errors.New("there is no such export")

// calmAfter is how long a watch has to last for the next to begin without delay.
const calmAfter = 10 * time.Second

// follow calls engaged for planes that have bound the export, and disengages others, until ctx ends. What it cannot reach stays as it is.
func (p *Export) follow(ctx context.Context, engaged func(*bound)) {
	for wait := retryFrom; ctx.Err() == nil; wait = min(2*wait, retryTo) {
		began := time.Now()
		err := p.watch(ctx, engaged)
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errNoExport) {
			p.others(nil)
		}
		if time.Since(began) > calmAfter {
			wait = retryFrom
		}
		if errors.Is(err, io.EOF) {
			p.log.V(1).Info("the watch of planes has ended, watching again", "after", wait)
		} else {
			p.log.Error(err, "could not watch planes, trying again", "after", wait)
		}
		pause(ctx, wait)
	}
}

// watch is one watch of the planes.
func (p *Export) watch(ctx context.Context, engaged func(*bound)) error {
	at := p.url.JoinPath("planes")
	at.RawQuery = "watch=true"
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json")
	answer, err := p.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusal(answer)
	}
	first := map[string]bool{} // by names; nil after the BOOKMARK
	for lines := json.NewDecoder(answer.Body); ; {
		var c change
		if err := lines.Decode(&c); err != nil {
			return err
		}
		switch c.Type {
		case "ADDED":
			if first != nil {
				first[c.Object.Name] = true
			}
			engaged(&c.Object)
		case "BOOKMARK":
			p.others(first)
			first = nil
		case "DELETED":
			if name := multicluster.ClusterName(c.Object.Name); p.has(name, c.Object.UID) {
				p.disengage(name)
			}
		default:
			return fmt.Errorf("%s: the server does not watch planes: it is older than this package", at.Path)
		}
	}
}

// others disengages the planes that are not among some.
func (p *Export) others(but map[string]bool) {
	for _, name := range p.ClusterNames() {
		if !but[name.String()] {
			p.disengage(name)
		}
	}
}

// refusal is the error of an answer that is none.
func refusal(answer *http.Response) error {
	var status struct {
		Message string `json:"message"`
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<16))
	_ = json.Unmarshal(text, &status) // what is no Status has no message
	err := fmt.Errorf("%s: %s %s", answer.Request.URL.Path, answer.Status, status.Message)
	if answer.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w: %w", errNoExport, err)
	}
	return err
}
