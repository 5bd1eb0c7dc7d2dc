package server

import (
	"context"
	"testing"
)

func BenchmarkFork(b *testing.B) {
	s := start(b)
	p := &Plane{}
	p.serving.Store(s)
	b.ReportAllocs()
	for b.Loop() {
		f, err := p.Fork(b.Context(), ForkOptions{})
		if err != nil {
			b.Fatal(err)
		}
		if err := f.Start(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := f.Stop(); err != nil {
			b.Fatal(err)
		}
	}
}
