package config

import (
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	utilversion "k8s.io/apimachinery/pkg/util/version"

	"github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/engine/admission/plugin"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// This file contains the flags that choose among the behaviours of Kubernetes: versions, feature gates, groups.

func (c *Config) addCompatibilityFlags(fs *pflag.FlagSet) {
	fs.StringArrayVar(&c.FeatureGates, "feature-gates", nil, "Feature gates to set, as name=true|false, separated by commas. Those of kube-apiserver are known; one without effect on this server is warned of.")
	fs.StringArrayVar(&c.RuntimeConfig, "runtime-config", nil, "APIs to serve or not, as key=true|false, separated by commas: group/version, group/version/resource, api/all, api/ga, api/beta, api/alpha.")
	fs.StringSliceVar(&c.emulatedVersion, "emulated-version", nil, "Version whose behaviour is wanted: kinds, fields, feature gates and defaults.")
	fs.StringSliceVar(&c.ExtensionNames, "extensions", c.ExtensionNames, "Additions to the API of kube-apiserver, for clients that ask for them: "+strings.Join(extensions.All(), ", ")+"; '*' for all, '-name' to leave one out; empty for none.")
	fs.BoolVar(&c.EmulationForward, "emulation-forward-compatible", false, "With --emulated-version, also serve the newer versions of APIs of which an older one is served.")
	fs.BoolVar(&c.EmulationForwardAsked, "runtime-config-emulation-forward-compatible", false, "With --emulated-version, let --runtime-config name APIs that are newer.")
	fs.StringSliceVar(&c.MinCompatibilityVersion, "min-compatibility-version", nil, "Oldest version of other servers on the same etcd, as reported at /version.")
	fs.StringSliceVar(&c.AdmissionControl, "admission-control", nil, "Admission plugins to run, in place of those on by default.")
	// A flag that is marked as deprecated is left out of the help; scripts that look for this one find it in kube-apiserver's.
	_ = fs.MarkDeprecated("admission-control", "Use --enable-admission-plugins or --disable-admission-plugins instead. Will be removed in a future version.") // fails only for unknown flags
	fs.Lookup("admission-control").Hidden = false
	fs.Var(versionFlag{c}, "version", "Print the version and end (raw: in full); a version that begins with v is what the server reports as its own.")
	fs.Lookup("version").NoOptDefVal = "true"
}

// versionFlag is --version: a question or an answer.
type versionFlag struct{ c *Config }

// String is part of pflag.Value.
func (f versionFlag) String() string {
	if f.c == nil {
		return ""
	}
	return f.c.ReportedVersion
}

// Type is part of pflag.Value.
func (f versionFlag) Type() string { return "version" }

// Set is part of pflag.Value.
func (f versionFlag) Set(value string) error {
	switch {
	case value == "raw":
		f.c.ShowVersion = "raw"
		return nil
	case strings.HasPrefix(value, "v"):
		v, err := utilversion.ParseSemantic(value)
		if err != nil {
			return err
		}
		own := version.Info().GitVersion
		if served := utilversion.MustParseSemantic(own); v.Major() != served.Major() || v.Minor() != served.Minor() {
			return fmt.Errorf("version %q must match major/minor of default version %q", value, own)
		}
		f.c.ReportedVersion = value
		return nil
	}
	show, err := strconv.ParseBool(value)
	if err != nil {
		return err
	}
	f.c.ShowVersion = ""
	if show {
		f.c.ShowVersion = "true"
	}
	return nil
}

// oldest is the oldest version that kube-apiserver 1.37 emulates and is compatible with.
const oldest = "1.34"

// validateCompatibility validates the flags of this file, with kube-apiserver's words.
func (c *Config) validateCompatibility(bad reporter) {
	emulated, err := emulatedVersion(c.emulatedVersion)
	if err != nil {
		bad("emulated-version", "%v", err)
	}
	const notEmulated = "cannot be set to true if the emulation version is the same as the binary version"
	if c.EmulationForward && emulated.EqualTo(features.Now().Emulated) {
		bad("emulation-forward-compatible", notEmulated)
	}
	if c.EmulationForwardAsked && emulated.EqualTo(features.Now().Emulated) {
		bad("runtime-config-emulation-forward-compatible", notEmulated)
	}
	compatible, err := componentVersion(c.MinCompatibilityVersion)
	if err != nil {
		bad("min-compatibility-version", "%v", err)
	} else if compatible != nil && !between(compatible, emulated) {
		bad("min-compatibility-version", "minCompatibilityVersion version %s is not between [%s, %s]", compatible, oldest, emulated)
	}
	if _, err := features.Parse(c.FeatureGates, c.Versions()); err != nil {
		bad("feature-gates", "%v", err)
	}
	if c.AdmissionControl == nil {
		return
	}
	for _, name := range c.AdmissionControl {
		if !slices.Contains(plugin.Names(), name) {
			bad("admission-control", "admission-control plugin %q is unknown", name)
		}
	}
	if len(c.EnableAdmission)+len(c.DisableAdmission) > 0 {
		bad("admission-control", "admission-control and enable-admission-plugins/disable-admission-plugins flags are mutually exclusive")
	}
}

// CheckEmulatedVersion returns why a version cannot be emulated.
func CheckEmulatedVersion(version string) error {
	_, err := emulatedVersion([]string{version})
	return err
}

// emulatedVersion reads the values of --emulated-version: none is the newest version. It returns one also beside an error.
func emulatedVersion(values []string) (*utilversion.Version, error) {
	served := features.Now().Emulated
	v, err := componentVersion(values)
	switch {
	case err != nil || v == nil:
		return served, err
	case !between(v, served):
		return v, fmt.Errorf("emulation version %s is not between [%s, %s.0]", v, oldest, served)
	}
	return v, nil
}

func between(v, newest *utilversion.Version) bool {
	return v.AtLeast(utilversion.MustParse(oldest)) && !v.GreaterThan(newest)
}

// componentVersion reads [component=]version of a flag that kube-apiserver's components share; nil: not given.
func componentVersion(values []string) (*utilversion.Version, error) {
	var out *utilversion.Version
	for _, value := range values {
		if component, v, ok := strings.Cut(value, "="); ok {
			if component != "kube" {
				return nil, fmt.Errorf("component not registered: %s", component)
			}
			value = v
		}
		v, err := utilversion.Parse(value)
		if err != nil {
			return nil, err
		}
		out = utilversion.MajorMinor(v.Major(), v.Minor())
	}
	return out, nil
}

// ServeRemovedVariable names kube-apiserver's environment variable for APIs that were to be removed.
const ServeRemovedVariable = "KUBE_APISERVER_SERVE_REMOVED_APIS_FOR_ONE_RELEASE"

// ServeRemoved says whether what the version no longer has is served for one more release.
func (c *Plane) ServeRemoved() (bool, error) {
	text, ok := os.LookupEnv(ServeRemovedVariable)
	if !ok {
		return false, nil
	}
	on, err := strconv.ParseBool(text)
	if err != nil {
		return false, fmt.Errorf("%s: %w", ServeRemovedVariable, err)
	}
	return on, nil
}

// Versions are those of the flags.
func (c *Plane) Versions() features.At {
	at := features.Now()
	if v, err := componentVersion(c.emulatedVersion); err == nil && v != nil { // Validate has reported the error
		at = features.At{Emulated: v, Compatible: v.SubtractMinor(1)}
	}
	if v, err := componentVersion(c.MinCompatibilityVersion); err == nil && v != nil {
		at.Compatible = v
	}
	return at
}

// Gates are the features that are on.
func (c *Plane) Gates() features.Set { return c.gates }

// VersionInfo returns what /version answers.
func (c *Plane) VersionInfo() version.Build {
	info, at := version.Info(), c.Versions()
	if c.ReportedVersion != "" {
		info.GitVersion = c.ReportedVersion
	}
	info.EmulationMajor, info.EmulationMinor = strconv.Itoa(int(at.Emulated.Major())), strconv.Itoa(int(at.Emulated.Minor()))
	info.MinCompatibilityMajor, info.MinCompatibilityMinor = strconv.Itoa(int(at.Compatible.Major())), strconv.Itoa(int(at.Compatible.Minor()))
	return info
}

// AdmissionPlugins returns the plugins to run beside those on by default, and those not to run.
func (c *Plane) AdmissionPlugins() (enable, disable []string) {
	if len(c.AdmissionControl) == 0 {
		return c.EnableAdmission, c.DisableAdmission
	}
	for _, name := range plugin.Names() {
		if !slices.Contains(c.AdmissionControl, name) {
			disable = append(disable, name)
		}
	}
	return c.AdmissionControl, disable
}

// warnCompatibility logs what was asked of gates and has no effect.
func (c *Plane) warnCompatibility(log *slog.Logger) {
	if ignored := c.Gates().Ignored(); len(ignored) > 0 {
		log.Warn("feature gates without effect on this server", "feature-gates", strings.Join(ignored, ","))
	}
}
