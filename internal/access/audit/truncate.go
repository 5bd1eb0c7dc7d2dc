package audit

import (
	"errors"
	"maps"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Truncated keeps events and batches within the sizes that the next backend accepts. An event that is too large loses
// its request and response objects; if it is still too large, it is dropped.
type Truncated struct {
	Backend
	// MaxEvent and MaxBatch are in bytes of JSON.
	MaxEvent, MaxBatch int64
	Report             *Reporter
}

var errTooLarge = errors.New("event is too large even after truncating")

// Process is part of Backend.
func (t *Truncated) Process(events ...*auditv1.Event) bool {
	ok := true
	var batch, lost []*auditv1.Event
	var size int64
	var scratch []byte
	for _, ev := range events {
		scratch = appendEvent(scratch[:0], ev)
		n := int64(len(scratch))
		if n > t.MaxEvent && (ev.Level == auditv1.LevelRequest || ev.Level == auditv1.LevelRequestResponse) {
			ev = truncated(ev)
			scratch = appendEvent(scratch[:0], ev)
			n = int64(len(scratch))
		}
		if n > t.MaxEvent {
			lost = append(lost, ev)
			continue
		}
		if len(batch) > 0 && size+n > t.MaxBatch {
			ok = t.Backend.Process(batch...) && ok
			batch, size = nil, 0
		}
		batch, size = append(batch, ev), size+n
	}
	if len(batch) > 0 {
		ok = t.Backend.Process(batch...) && ok
	}
	if len(lost) > 0 {
		t.Report.lost("truncate", errTooLarge, lost)
	}
	return ok
}

func truncated(ev *auditv1.Event) *auditv1.Event {
	out := *ev
	out.RequestObject, out.ResponseObject = nil, nil
	out.Annotations = maps.Clone(ev.Annotations)
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations["audit.k8s.io/truncated"] = "true"
	return &out
}
