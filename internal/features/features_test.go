package features

import (
	"slices"
	"strings"
	"testing"
)

// TestWords compares the errors with those of kube-apiserver v1.36.3.
func TestWords(t *testing.T) {
	for value, says := range map[string]string{
		"":                           "",
		" , ":                        "",
		"WatchList=true":             "",
		"kube:WatchList=T":           "",
		"AllAlpha=false":             "",
		"Nope=true":                  "unrecognized feature gate: Nope",
		"AllAlpha":                   "missing bool value for AllAlpha",
		"WatchList=maybe":            `invalid value of WatchList=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`,
		"foo:WatchList=true":         "component not registered: foo",
		"Nope=true,AllAlpha":         "unrecognized feature gate: Nope\nmissing bool value for AllAlpha",
		"UserNamespacesSupport=true": "",
		"StructuredAuthenticationConfiguration=false": "cannot set feature gate StructuredAuthenticationConfiguration to false, feature is locked to true",
	} {
		_, err := Parse([]string{value})
		if got := text(err); got != says {
			t.Errorf("%q: %q, want %q", value, got, says)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestWhatIsAsked(t *testing.T) {
	for value, c := range map[string]struct {
		ignored string
		flagz   bool
	}{
		"":                                  {"", true},
		"ComponentFlagz=false":              {"", false},
		"AllBeta=false":                     {"AllBeta=false", false},
		"AllBeta=false,ComponentFlagz=true": {"AllBeta=false", true},
		"WatchList=true,AllAlpha=false":     {"", true}, // what kanzen does anyway
		"WatchList=false,CBORServingAndStorage=true": {"CBORServingAndStorage=true WatchList=false", true},
		"ComponentFlagz=false,ComponentFlagz=true":   {"", true},
	} {
		s, err := Parse(strings.Split(value, ";"))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Ignored(), " "); got != c.ignored || s.Enabled(ComponentFlagz) != c.flagz {
			t.Errorf("%q: ignored %q, flagz %t; want %q, %t", value, got, s.Enabled(ComponentFlagz), c.ignored, c.flagz)
		}
	}
}

func TestTable(t *testing.T) {
	known := Known()
	for name, g := range known {
		if !slices.Contains([]string{"ALPHA", "BETA", "GA", "DEPRECATED"}, g.Stage) || g.Stage == "ALPHA" && g.Default {
			t.Errorf("%s: %+v", name, g)
		}
	}
	for _, name := range []string{ComponentFlagz, ComponentStatusz} {
		if g, ok := known[name]; !ok || g.Locked {
			t.Errorf("%s cannot be switched: %+v", name, g)
		}
	}
}
