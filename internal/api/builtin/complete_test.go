package builtin_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kanzen-io/kanzen/internal/engine"
	"github.com/kanzen-io/kanzen/internal/object/transcode"
)

// plans has the plan of each Go type; nil: there is none.
type plans struct{ sync.Map }

func (p *plans) of(t reflect.Type) *transcode.Plan {
	made, ok := p.Load(t)
	if !ok {
		plan, err := transcode.Compile(t, transcode.Options{Defaults: true})
		if err != nil {
			plan = nil
		}
		made, _ = p.LoadOrStore(t, plan)
	}
	return made.(*transcode.Plan)
}

var planned plans

// completeIsServed returns an error if a complete value of obj's kind, one to which setting defaults adds nothing, would be
// served in another form from its bytes than from its object.
func (k kind) completeIsServed(obj engine.Object) error {
	plan := planned.of(reflect.TypeOf(obj).Elem())
	if k.v != k.hub || k.v.Default == nil || plan == nil {
		return nil
	}
	obj = k.defaulted(obj)
	obj.SetResourceVersion("")
	raw, err := marshal(obj)
	if err != nil {
		return err
	}
	k.v.Default(obj)
	if again, err := marshal(obj); err != nil || !bytes.Equal(again, raw) {
		return err // not complete
	}
	read := k.v.New()
	if err := read.(interface{ Unmarshal(data []byte) error }).Unmarshal(raw); err != nil {
		return err
	}
	k.v.Default(read)
	read.SetResourceVersion("7")
	read.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	want, err := json.Marshal(read)
	if err != nil {
		return err
	}
	got, err := plan.Append(nil, raw, 7)
	if err != nil || !bytes.Equal(got, want) {
		return fmt.Errorf("from its bytes: %s, %w\nfrom its object: %s", got, err, want)
	}
	return nil
}

func marshal(obj engine.Object) ([]byte, error) {
	return obj.(interface{ Marshal() ([]byte, error) }).Marshal()
}
