package extensions

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for values, want := range map[string]string{
		"":                    "",
		"*":                   strings.Join(All(), ","),
		"visible,namespaces":  "namespaces,visible",
		"*,-bundles,-fields":  "forks,history,namespaces,selectors,sort,visible",
		"-visible,*":          "bundles,fields,forks,history,namespaces,selectors,sort",
		"sort,-sort":          "",
		"visible,nothing":     `"nothing" is unknown; there are ` + strings.Join(All(), ", "),
		"visible,-everything": `"everything" is unknown; there are ` + strings.Join(All(), ", "),
	} {
		var list []string
		if values != "" {
			list = strings.Split(values, ",")
		}
		s, err := Parse(list)
		got := strings.Join(s.Names(), ",")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q is %q, not %q", values, got, want)
		}
	}
}
