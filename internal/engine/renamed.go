package engine

import (
	"context"
	"fmt"
)

// marshaler is implemented by the Go types of built-in kinds.
type marshaler interface{ Marshal() ([]byte, error) }

// Renamed returns the hub version and others that differ from it in nothing but the name: their protobuf is the same.
func Renamed(hub *Version, others ...*Version) []*Version {
	for _, v := range others {
		v.ToHub = func(_ context.Context, obj Object) (Object, error) { return recode(obj, hub.New()) }
		v.FromHub = func(_ context.Context, obj Object) (Object, error) { return recode(obj, v.New()) }
		if hub.Default != nil {
			v.Default = func(obj Object) { defaultAs(hub, v, obj) }
		}
	}
	return append([]*Version{hub}, others...)
}

// defaultAs gives an object of a version the defaults of the hub version.
func defaultAs(hub, v *Version, obj Object) {
	h, err := recode(obj, hub.New())
	if err != nil {
		return // the conversion that follows reports it
	}
	hub.Default(h)
	_, _ = recode(h, obj) // fails only if the first conversion does
}

// recode reads from's protobuf into an object of another type.
func recode(from, into Object) (Object, error) {
	m, ok := from.(marshaler)
	u, reads := into.(unmarshaler)
	if !ok || !reads {
		return nil, fmt.Errorf("%T cannot be converted to %T", from, into)
	}
	b, err := m.Marshal()
	if err != nil {
		return nil, err
	}
	kind := into.GetObjectKind().GroupVersionKind() // not part of the bytes
	u.Reset()
	if err := u.Unmarshal(b); err != nil {
		return nil, err
	}
	into.GetObjectKind().SetGroupVersionKind(kind)
	return into, nil
}
