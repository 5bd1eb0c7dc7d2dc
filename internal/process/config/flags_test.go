package config

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// valueOf returns a value of a flag's type.
func valueOf(name, kind, def string) string {
	special := map[string]string{
		"feature-gates": "WatchList=true", "runtime-config": "api/all=true", "emulated-version": "1.36",
		"min-compatibility-version": "1.35", "version": "v1.37.2-suffix", "oidc-required-claim": "a=b",
		"allow-metric-labels": "m,l=v", "help": "true", "service-node-port-range": "30000-32767", "tls-sni-cert-key": "c,k",
		"etcd-servers-overrides": "/events#http://a;http://b",
	}
	if v, ok := special[name]; ok {
		return v
	}
	switch kind {
	case "bool":
		return "true"
	case "int", "float", "float32", "int32Slice":
		return "1"
	case "duration":
		return "1s"
	case "ip":
		return "10.0.0.1"
	}
	return strings.Trim(def, "[]") + "x"
}

// TestEveryFlag gives each flag that kube-apiserver v1.37.2 has (testdata/flags.json lists those of its --help).
func TestEveryFlag(t *testing.T) {
	data, err := os.ReadFile("testdata/flags.json")
	if err != nil {
		t.Fatal(err)
	}
	var flags []struct{ Name, Type, Default string }
	if err := json.Unmarshal(data, &flags); err != nil {
		t.Fatal(err)
	}
	for _, f := range flags {
		c := Default()
		fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
		fs.Bool("help", false, "") // cobra adds it
		c.AddFlags(fs, false)
		values := []string{valueOf(f.Name, f.Type, f.Default)}
		if d := strings.Trim(f.Default, "[]"); d != "" { // as scripts do that set every flag
			values = append(values, d)
		}
		for _, value := range values {
			if err := fs.Parse([]string{"--" + f.Name + "=" + value}); err != nil {
				t.Errorf("--%s=%s: %v", f.Name, value, err)
			}
		}
	}
	if len(flags) < 170 {
		t.Errorf("%d flags", len(flags))
	}
}

// TestFlagsWithoutEffect: docs/differences.md lists the flags that do nothing, and no others.
func TestFlagsWithoutEffect(t *testing.T) {
	page, err := os.ReadFile("../../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "why they have no effect |")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := map[string]bool{}
	for _, m := range regexp.MustCompile("`--([a-z0-9-]+)`").FindAllStringSubmatch(section, -1) {
		listed[m[1]] = true
	}
	for name := range harmless {
		if !listed[name] {
			t.Errorf("--%s has no effect, and docs/differences.md does not say so", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("docs/differences.md says that --%s has no effect", name)
	}
}

// TestCompatibilityFlags compares the errors with those of kube-apiserver v1.37.2.
func TestCompatibilityFlags(t *testing.T) {
	for args, says := range map[string]string{
		"--feature-gates= --runtime-config=":            "",
		"--feature-gates=":                              "",
		"--feature-gates=A=true --feature-gates=B=true": "--feature-gates: unrecognized feature gate: A\nunrecognized feature gate: B",
		"--emulated-version=1.36":                       "",
		"--emulated-version=kube=1.34":                  "",
		"--emulation-forward-compatible":                "--emulation-forward-compatible: cannot be set to true if the emulation version is the same as the binary version",
		"--runtime-config-emulation-forward-compatible": "--runtime-config-emulation-forward-compatible: cannot be set to true if the emulation version is the same as the binary version",
		"--emulated-version=1.20":                       "--emulated-version: emulation version 1.20 is not between [1.34, 1.37.0]",
		"--emulated-version=kube=1.99":                  "--emulated-version: emulation version 1.99 is not between [1.34, 1.37.0]",
		"--emulated-version=foo=1.36":                   "--emulated-version: component not registered: foo",
		"--emulated-version=x":                          `--emulated-version: could not parse "x" as version`,
		"--min-compatibility-version=1.36":              "",
		"--min-compatibility-version=1.2":               "--min-compatibility-version: minCompatibilityVersion version 1.2 is not between [1.34, 1.37]",
		"--admission-control=NamespaceLifecycle":        "",
		"--admission-control=Foo":                       `--admission-control: admission-control plugin "Foo" is unknown`,
		"--admission-control=AlwaysAdmit --enable-admission-plugins=NamespaceLifecycle": "--admission-control: admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive",
		"--version=v1.2.3-suffix": `invalid argument "v1.2.3-suffix" for "--version" flag: version "v1.2.3-suffix" must match major/minor of default version "` + (&Config{}).VersionInfo().GitVersion + `"`,
		"--version=foo":           `invalid argument "foo" for "--version" flag: strconv.ParseBool: parsing "foo": invalid syntax`,
		"--version=v1.37.2-x":     "",
	} {
		c := Standalone()
		fs := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		c.AddFlags(fs, true)
		err := fs.Parse(strings.Fields(args))
		if err == nil {
			_, _, err = c.Validate()
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != says {
			t.Errorf("%s:\n got %s\nwant %s", args, got, says)
		}
	}
}

func TestReportedVersion(t *testing.T) {
	c := Default()
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	c.AddFlags(fs, false)
	if err := fs.Parse([]string{"--version=v1.37.2-suffix", "--min-compatibility-version=1.34"}); err != nil {
		t.Fatal(err)
	}
	if i := c.VersionInfo(); i.GitVersion != "v1.37.2-suffix" || i.Minor != "37" || i.MinCompatibilityMinor != "34" || c.ShowVersion != "" {
		t.Errorf("%+v, shown: %q", i, c.ShowVersion)
	}
	if err := fs.Parse([]string{"--version"}); err != nil || c.ShowVersion != "true" {
		t.Errorf("--version alone: %q, %v", c.ShowVersion, err)
	}
}

func TestAdmissionControl(t *testing.T) {
	c := Plane{AdmissionControl: []string{"NamespaceLifecycle", "AlwaysPullImages"}}
	enable, disable := c.AdmissionPlugins()
	if strings.Join(enable, ",") != "NamespaceLifecycle,AlwaysPullImages" || !contains(disable, "LimitRanger") || contains(disable, "NamespaceLifecycle") {
		t.Errorf("enabled %v, disabled %v", enable, disable)
	}
}

func contains(list []string, s string) bool {
	for _, v := range list {
		if v == s {
			return true
		}
	}
	return false
}
