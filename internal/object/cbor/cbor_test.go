package cbor

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"github.com/kanzen-io/kanzen/internal/object/jsonobject"
)

const doc = `{"apiVersion":"v1","data":{"a":"b","n":null,"ü":"é\n"},"list":[1,-5,2.5,1e+21,true,[],{}],"max":9223372036854775807}`

func TestRoundTrip(t *testing.T) {
	b, err := FromJSON([]byte(doc))
	if err != nil || !Is(b) {
		t.Fatalf("%x, %v", b, err)
	}
	if again, err := ToJSON(b); err != nil || string(again) != doc {
		t.Errorf("%s, %v", again, err)
	}
	for _, bad := range []string{"", "x", "a0", "\xd9\xd9\xf7", "\x80", "\xa1\x01\x02", "\xa2\x41a\x01\x41a\x02", "\xa1\x41a\xfb\x7f\xf8\x00\x00\x00\x00\x00\x00", "\xa1\x41a\xf7", "\xa0\xa0"} {
		if doc, err := ToJSON([]byte(bad)); err == nil {
			t.Errorf("%x is %s", bad, doc)
		}
	}
	for _, bad := range []string{"", "[]", "{", `{"a":1}x`} {
		if b, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%s is %x", bad, b)
		}
	}
}

// Clients cannot rely on the order of members.
func TestOrderChanges(t *testing.T) {
	first, err := FromJSON([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if b, err := FromJSON([]byte(doc)); err != nil || !bytes.Equal(b, first) {
			return
		}
	}
	t.Error("the order of members is always the same")
}

func TestList(t *testing.T) {
	for _, n := range []int{0, 1, 23, 24, 70000} {
		list, err := ListHead(map[string]any{"kind": "L", "metadata": map[string]any{"continue": ""}}, n)
		if err != nil {
			t.Fatal(err)
		}
		item, err := ItemFromJSON([]byte(`{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ToJSON(append(list, bytes.Repeat(item, n)...))
		want := `{"items":[` + strings.TrimSuffix(strings.Repeat(`{"a":1},`, n), ",") + `],"kind":"L","metadata":{"continue":""}}`
		if err != nil || string(got) != want {
			t.Errorf("%d items: %.100s, %v", n, got, err)
		}
	}
}

// What would take much memory is refused before it is decoded; what is malformed is left to the decoder.
func TestBound(t *testing.T) {
	long := func(kind byte, n int) []byte { return appendHead(nil, kind, n) }
	for name, c := range map[string]struct {
		data  []byte
		wrong bool
	}{
		"as many":         {append(long(array, maxValues-1), bytes.Repeat([]byte{0xf6}, maxValues-1)...), false},
		"too many":        {append(long(array, maxValues), bytes.Repeat([]byte{0xf6}, maxValues)...), true},
		"too many maps":   {bytes.Repeat([]byte{0xa0}, maxValues+1), true},
		"too many heads":  {bytes.Repeat([]byte{0x1b, 0, 0, 0, 0, 0, 0, 0, 1}, maxValues+1), true},
		"one long text":   {append(long(byteString, 2*maxValues), make([]byte, 2*maxValues)...), false},
		"many short ones": {bytes.Repeat([]byte("\x61a"), maxValues+1), true},
		"a broken text":   {append(long(textString, 2*maxValues), make([]byte, maxValues)...), false},
		"no end of head":  {[]byte{0x1b, 0, 0}, false},
		"no text":         {[]byte{0x5b, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, false},
		"reserved":        {[]byte{0x1c, 0x1d, 0x1e, 0x5c, 0x7f}, false},
	} {
		if err := Bound(c.data); (err != nil) != c.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// sealed stands for encryption.
type sealed struct{ stale bool }

func (sealed) ToStorage(_ context.Context, _ string, value []byte) ([]byte, error) {
	return append([]byte("sealed:"), value...), nil
}

func (s sealed) FromStorage(_ context.Context, _ string, stored []byte) ([]byte, bool, error) {
	return bytes.TrimPrefix(stored, []byte("sealed:")), s.stale, nil
}

// Both forms are read, and what is stored in the other form is stale.
func TestStorage(t *testing.T) {
	ctx := t.Context()
	value := []byte(`{"a":1.5,"b":{"c":"d"}}` + "\n")
	for _, written := range []bool{false, true} {
		stored, err := Storage(sealed{}, written).ToStorage(ctx, "key", value)
		if err != nil {
			t.Fatal(err)
		}
		if plain, ok := bytes.CutPrefix(stored, []byte("sealed:")); !ok || Is(plain) != written {
			t.Errorf("stored as CBOR %v: %x", written, stored)
		}
		for _, read := range []bool{false, true} {
			got, stale, err := Storage(sealed{}, read).FromStorage(ctx, "key", stored)
			if err != nil || !bytes.Equal(got, value) || stale != (read != written) {
				t.Errorf("written as CBOR %v, read by a server that does so %v: %q, stale %v, %v", written, read, got, stale, err)
			}
		}
		if _, stale, err := Storage(sealed{stale: true}, written).FromStorage(ctx, "key", stored); err != nil || !stale {
			t.Errorf("encrypted anew: stale %v, %v", stale, err)
		}
	}
	if _, _, err := Storage(sealed{}, true).FromStorage(ctx, "key", []byte("\xd9\xd9\xf7\x01")); err == nil {
		t.Error("no error for what is no object")
	}
}

// FuzzToJSON turns what may be CBOR into JSON and back.
func FuzzToJSON(f *testing.F) {
	whole, err := FromJSON([]byte(doc))
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{string(whole), "\xa1\x41a\xc0\x742026-01-01T00:00:00Z", "\xa1\x41a\xd6\x42hi", "\xbf\x61a\x9f\x01\xff\xff", "\xa1\x41a\x5f\x41b\x41c\xff", "\xa1\x41a\xf9\x3e\x00",
		strings.Repeat("\x81", 100), "\xa1\x41a" + strings.Repeat("\xd9\xd9\xf7", 50) + "\x01"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if Bound(data) != nil {
			return
		}
		doc, err := ToJSON(data)
		if err != nil {
			return
		}
		if !json.Valid(doc) {
			t.Fatalf("%x is %s", data, doc)
		}
		content, err := jsonobject.Unmarshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if content == nil {
			return // null
		}
		again, err := FromJSON(doc)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := direct.Unmarshal(again, &got); err != nil || !reflect.DeepEqual(got, content) {
			t.Fatalf("%s came back as %v, %v", doc, got, err)
		}
	})
}
