package console

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"
	testingclock "k8s.io/utils/clock/testing"
)

func named(name string) user.Info { return &user.DefaultInfo{Name: name} }

func TestSecrets(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	s := newSecrets(clk, rand.Reader, time.Hour, 10*time.Minute, 3)
	issue := func(name string) string {
		t.Helper()
		text, err := s.issue(named(name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	a := issue("a")
	for range 8 {
		clk.Step(9 * time.Minute)
		if u := s.find(a); (u != nil) != (clk.Since(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)) < time.Hour) {
			t.Fatalf("after %v: %v", clk.Now(), u)
		}
	}
	idle := issue("a")
	clk.Step(10 * time.Minute)
	if s.find(idle) != nil {
		t.Error("a secret that nobody used for long is good")
	}
	once := issue("a")
	if u := s.take(once); u == nil || u.GetName() != "a" || s.take(once) != nil || s.find(once) != nil {
		t.Error("a secret can be taken once")
	}
	if s.find("") != nil || s.find(once+"x") != nil {
		t.Error("something is found that nobody has made")
	}
	for hash := range s.all {
		if strings.Contains(fmt.Sprintf("%s", hash), once) {
			t.Error("a secret is kept")
		}
	}
	first := issue("b")
	for range 3 {
		clk.Step(time.Second)
		issue("b")
	}
	if s.find(first) != nil || len(s.all) != 3 {
		t.Errorf("b has %d secrets", len(s.all))
	}
	var err error
	for n := 0; n < 2*maxAll && err == nil; n++ {
		_, err = s.issue(named(fmt.Sprint(n)))
	}
	if !errors.Is(err, errTooMany) || len(s.all) != maxAll {
		t.Errorf("of all there are %d: %v", len(s.all), err)
	}
	if _, err := s.issue(named("b")); err != nil {
		t.Errorf("who has some gets another one in their place: %v", err)
	}
	clk.Step(time.Hour)
	if issue("z"); len(s.all) != 1 {
		t.Errorf("%d secrets are kept beyond their time", len(s.all))
	}
}
