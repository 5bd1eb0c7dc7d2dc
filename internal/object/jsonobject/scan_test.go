package jsonobject

import (
	"bytes"
	"testing"
)

// FuzzScanner checks that the Scanner accepts exactly the documents that, without white space, equal what Marshal
// writes.
func FuzzScanner(f *testing.F) {
	for _, d := range documents[:len(documents)-4] {
		f.Add([]byte(d))
	}
	for _, o := range objects {
		f.Add([]byte(o))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScanner(data)
		canonical := s.Ahead() == '{' && s.Skip() && s.Ahead() == 0 && s.Offset() == len(data)
		v, duplicates, ok := decode(data)
		if canonical && (!ok || duplicates) {
			t.Fatalf("%q is no object", data)
		}
		if !ok {
			return
		}
		written, err := Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if canonical && !bytes.ContainsAny(data, " \t\r\n<>&\u2028\u2029") && !bytes.Equal(written, data) {
			t.Errorf("%q is written %q", data, written)
		}
		if again, _, _ := decode(written); again != nil {
			if b, _ := Marshal(again); !bytes.Equal(b, written) {
				return // -0.0 is written as -0, which is read as 0
			}
		}
		s = NewScanner(written)
		if !s.Skip() || s.Offset() != len(written) {
			t.Errorf("%q is what is written", written)
		}
	})
}

func BenchmarkScanner(b *testing.B) {
	m, err := Unmarshal(sample())
	if err != nil {
		b.Fatal(err)
	}
	data, err := Marshal(m)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if !NewScanner(data).Skip() {
			b.Fatal("not as written")
		}
	}
}
