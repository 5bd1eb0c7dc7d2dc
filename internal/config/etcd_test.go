package config

import (
	"fmt"
	"testing"
)

func TestEtcdOverridden(t *testing.T) {
	for _, c := range []struct {
		values []string
		want   string // of what is returned; "": an error
	}{
		{nil, "[]"},
		{[]string{"/events#http://a:2379;http://b:2379"}, "[{[http://a:2379 http://b:2379] [events]}]"},
		{[]string{"/events#a;b", "apps/deployments#b;a", "/nodes#c"}, "[{[a b] [events deployments.apps]} {[c] [nodes]}]"},
		{[]string{"/events#a", "/events#b"}, "[{[a] []} {[b] [events]}]"},
		{[]string{"/events"}, ""},
		{[]string{"events#a"}, ""},
		{[]string{"a/b/c#d"}, ""},
		{[]string{"/events#a;;b"}, ""},
		{[]string{"/events#"}, ""},
		{[]string{"/events#a#b"}, ""},
	} {
		got, err := (&Config{EtcdOverrides: c.values}).EtcdOverridden()
		if text := fmt.Sprint(got); (err != nil) != (c.want == "") || err == nil && text != c.want {
			t.Errorf("%q: %s, %v", c.values, text, err)
		}
	}
}
