package testkit_test

import (
	"context"
	"os"
	"testing"

	"github.com/kanzen-io/kanzen/testkit"
)

func BenchmarkStart(b *testing.B) {
	if os.Getenv("KANZEN") == "" {
		b.Skip("$KANZEN names no binary")
	}
	for name, options := range map[string][]testkit.Option{"Plane": nil, "OwnProcess": {testkit.OwnProcess()}} {
		b.Run(name, func(b *testing.B) {
			for range b.N {
				s, err := testkit.New(context.Background(), options...)
				if err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := s.Stop(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}
