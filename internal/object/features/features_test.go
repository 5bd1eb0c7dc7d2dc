package features

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/version"
)

// TestWords compares the errors with those of kube-apiserver v1.37.2.
func TestWords(t *testing.T) {
	for value, says := range map[string]string{
		"":                              "",
		" , ":                           "",
		"WatchList=true":                "",
		"kube:WatchList=T":              "",
		"AllAlpha=false":                "",
		"Nope=true":                     "unrecognized feature gate: Nope",
		"AllAlpha":                      "missing bool value for AllAlpha",
		"WatchList=maybe":               `invalid value of WatchList=maybe, err: strconv.ParseBool: parsing "maybe": invalid syntax`,
		"foo:WatchList=true":            "component not registered: foo",
		"Nope=true,AllAlpha":            "unrecognized feature gate: Nope\nmissing bool value for AllAlpha",
		"UserNamespacesSupport=true":    "",
		"CPUManagerPolicyOptions=false": "cannot set feature gate CPUManagerPolicyOptions to false, feature is locked to true",
	} {
		_, err := Parse([]string{value}, Now())
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
		"LoggingBetaOptions=false,APIServingWithRoutine=true": {"APIServingWithRoutine=true LoggingBetaOptions=false", true},
		"ComponentFlagz=false,ComponentFlagz=true":            {"", true},
	} {
		s, err := Parse(strings.Split(value, ";"), Now())
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(s.Ignored(), " "); got != c.ignored || s.Enabled(ComponentFlagz) != c.flagz {
			t.Errorf("%q: ignored %q, flagz %t; want %q, %t", value, got, s.Enabled(ComponentFlagz), c.ignored, c.flagz)
		}
	}
}

func TestTable(t *testing.T) {
	known := Known(Now())
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

// A gate is what it was in the version that is emulated, and one that came later cannot be set.
func TestEmulated(t *testing.T) {
	at := At{version.MustParse("1.36"), version.MustParse("1.35")}
	for value, says := range map[string]string{
		"HPAScaleToZero=true":               "",
		"HPAGeneration=false":               "cannot set feature gate HPAGeneration to false, feature is PreAlpha at emulated version 1.36, min compatibility version 1.35",
		"GangScheduling=true":               "unrecognized feature gate: GangScheduling",
		"ClusterTrustBundleProjection=true": "ClusterTrustBundleProjection is enabled, but depends on features that are disabled: [ClusterTrustBundle]",
	} {
		if _, err := Parse([]string{value}, at); text(err) != says {
			t.Errorf("%q: %q, want %q", value, text(err), says)
		}
	}
	then, err := Parse(nil, at)
	if err != nil {
		t.Fatal(err)
	}
	now := Set{}
	for _, name := range []string{HPAScaleToZero, HPAGeneration, MaxUnavailableStatefulSet} {
		if then.Enabled(name) || !now.Enabled(name) {
			t.Errorf("%s: %t in 1.36, %t now", name, then.Enabled(name), now.Enabled(name))
		}
	}
	if then.Off("no such gate") || !then.Off(HPAGeneration) {
		t.Error("what is off in 1.36")
	}
}
