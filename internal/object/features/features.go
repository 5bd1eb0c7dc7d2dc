// Package features knows the feature gates of kube-apiserver, in each version that it can emulate, and what --feature-gates
// asks for.
package features

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/version"

	served "github.com/kanzen-io/kanzen/internal/base/version"
	"github.com/kanzen-io/kanzen/internal/object/features/gated"
)

//go:generate sh -c "cd ../../../bench/peer && go run ./gates > ../../internal/object/features/gates.txt"

//go:embed gates.txt
var table string

// Gates of fields that also change other behaviour.
const (
	DRAConsumableCapacity       = "DRAConsumableCapacity"
	DRAListTypeAttributes       = "DRAListTypeAttributes"
	DRAPartitionableDevicesType = "DRAPartitionableDevicesType"
)

// Gates that kanzen switches, beside those of fields. (APIServerIdentity is one that others need.)
const (
	APIServerIdentity                              = "APIServerIdentity"
	APIServerWebhookAuthenticationToken            = "APIServerWebhookAuthenticationToken"
	AllowUnsafeMalformedObjectDeletion             = "AllowUnsafeMalformedObjectDeletion"
	CBORServingAndStorage                          = "CBORServingAndStorage"
	CSIVolumeHealth                                = "CSIVolumeHealth"
	ClearingNominatedNodeNameAfterBinding          = "ClearingNominatedNodeNameAfterBinding"
	ClusterTrustBundle                             = "ClusterTrustBundle"
	ComponentFlagz                                 = "ComponentFlagz"
	ComponentStatusz                               = "ComponentStatusz"
	CompositePodGroup                              = "CompositePodGroup"
	ContainerStopSignals                           = "ContainerStopSignals"
	CoordinatedLeaderElection                      = "CoordinatedLeaderElection"
	DRAFractionalCapacityRange                     = "DRAFractionalCapacityRange"
	DRADeviceTaintRules                            = "DRADeviceTaintRules"
	DRAResourcePoolStatus                          = "DRAResourcePoolStatus"
	DRAWorkloadResourceClaims                      = "DRAWorkloadResourceClaims"
	DetectCacheInconsistency                       = "DetectCacheInconsistency"
	EvictionRequestAPI                             = "EvictionRequestAPI"
	ExcludeAdmissionWebhookVirtualResources        = "ExcludeAdmissionWebhookVirtualResources"
	GenericWorkload                                = "GenericWorkload"
	H2CContainerProbe                              = "H2CContainerProbe"
	HPAGeneration                                  = "HPAGeneration"
	HPAScaleToZero                                 = "HPAScaleToZero"
	ImageVolumeWithDigest                          = "ImageVolumeWithDigest"
	InPlacePodVerticalScalingMemoryBackedVolumes   = "InPlacePodVerticalScalingMemoryBackedVolumes"
	KMSv1                                          = "KMSv1"
	ManifestBasedAdmissionControlConfig            = "ManifestBasedAdmissionControlConfig"
	MatchLabelKeysInPodTopologySpread              = "MatchLabelKeysInPodTopologySpread"
	MatchLabelKeysInPodTopologySpreadSelectorMerge = "MatchLabelKeysInPodTopologySpreadSelectorMerge"
	MaxUnavailableStatefulSet                      = "MaxUnavailableStatefulSet"
	MutablePVNodeAffinity                          = "MutablePVNodeAffinity"
	MutablePodResourcesForSuspendedJobs            = "MutablePodResourcesForSuspendedJobs"
	MutableSchedulingDirectivesForSuspendedJobs    = "MutableSchedulingDirectivesForSuspendedJobs"
	NativeHistograms                               = "NativeHistograms"
	OpenAPIEnums                                   = "OpenAPIEnums"
	PodCertificateRequest                          = "PodCertificateRequest"
	PodDeletionCost                                = "PodDeletionCost"
	PodGroupPreemptionPolicy                       = "PodGroupPreemptionPolicy"
	PodLevelResourcesFixDefaulting                 = "PodLevelResourcesFixDefaulting"
	PodLevelResourcesFixKubeletQOSClass            = "PodLevelResourcesFixKubeletQOSClass"
	PodLogsQuerySplitStreams                       = "PodLogsQuerySplitStreams"
	ShardedListAndWatch                            = "ShardedListAndWatch"
	PodTopologyLabelsAdmission                     = "PodTopologyLabelsAdmission"
	RelaxedServiceNameValidation                   = "RelaxedServiceNameValidation"
	PortForwardWebsockets                          = "PortForwardWebsockets"
	RestartAllContainersOnContainerExits           = "RestartAllContainersOnContainerExits"
	SELinuxMount                                   = "SELinuxMount"
	ServiceAccountNodeAudienceRestriction          = "ServiceAccountNodeAudienceRestriction"
	ServiceCIDRStatusFieldWiping                   = "ServiceCIDRStatusFieldWiping"
	StatefulSetRecreateStrategy                    = "StatefulSetRecreateStrategy"
	StorageVersionAPI                              = "StorageVersionAPI"
	StorageVersionHash                             = "StorageVersionHash"
	StorageVersionMigrator                         = "StorageVersionMigrator"
	StrictIPCIDRValidation                         = "StrictIPCIDRValidation"
	TaintTolerationComparisonOperators             = "TaintTolerationComparisonOperators"
	TranslateStreamCloseWebsocketRequests          = "TranslateStreamCloseWebsocketRequests"
	TopologyAwareWorkloadScheduling                = "TopologyAwareWorkloadScheduling"
	UnknownVersionInteroperabilityProxy            = "UnknownVersionInteroperabilityProxy"
	UserNamespacesHostNetworkSupport               = "UserNamespacesHostNetworkSupport"
	VolumeLimitScaling                             = "VolumeLimitScaling"
	WatchList                                      = "WatchList"
	WatchListCompression                           = "WatchListCompression"
	WebhookRoundTripLoadBalancing                  = "WebhookRoundTripLoadBalancing"
	WorkloadWithJob                                = "WorkloadWithJob"
)

// Gates of authentication and authorization.
const (
	AllowInsecureKubeletCertificateSigningRequests      = "AllowInsecureKubeletCertificateSigningRequests"
	AllowParsingUserUIDFromCertAuth                     = "AllowParsingUserUIDFromCertAuth"
	AuthorizePodWebsocketUpgradeCreatePermission        = "AuthorizePodWebsocketUpgradeCreatePermission"
	ConstrainedImpersonation                            = "ConstrainedImpersonation"
	DRAResourceClaimGranularStatusAuthorization         = "DRAResourceClaimGranularStatusAuthorization"
	KubeletServiceAccountTokenForCredentialProviders    = "KubeletServiceAccountTokenForCredentialProviders"
	RemoteRequestHeaderUID                              = "RemoteRequestHeaderUID"
	StructuredAuthenticationConfigurationEgressSelector = "StructuredAuthenticationConfigurationEgressSelector"
	StructuredAuthenticationConfigurationJWKSMetrics    = "StructuredAuthenticationConfigurationJWKSMetrics"
	TokenRequestServiceAccountUIDValidation             = "TokenRequestServiceAccountUIDValidation"
)

func switchable(name string) bool {
	return slices.Contains(gated.Gates(), name) || slices.Contains([]string{
		APIServerWebhookAuthenticationToken, AllowUnsafeMalformedObjectDeletion, CBORServingAndStorage, CSIVolumeHealth, ClusterTrustBundle, ComponentFlagz,
		ComponentStatusz, CompositePodGroup, ContainerStopSignals, CoordinatedLeaderElection,
		DRAConsumableCapacity, DRAFractionalCapacityRange, DRAListTypeAttributes, DRAPartitionableDevicesType,
		DRADeviceTaintRules, DRAResourcePoolStatus, DRAWorkloadResourceClaims, DetectCacheInconsistency, EvictionRequestAPI, ExcludeAdmissionWebhookVirtualResources, GenericWorkload,
		H2CContainerProbe, HPAGeneration, HPAScaleToZero, ImageVolumeWithDigest,
		InPlacePodVerticalScalingMemoryBackedVolumes, KMSv1, ManifestBasedAdmissionControlConfig, MaxUnavailableStatefulSet, MutablePVNodeAffinity,
		NativeHistograms, PodCertificateRequest, PodGroupPreemptionPolicy, PodLevelResourcesFixDefaulting, PodLevelResourcesFixKubeletQOSClass,
		PodLogsQuerySplitStreams, PodTopologyLabelsAdmission, RelaxedServiceNameValidation, ServiceAccountNodeAudienceRestriction,
		ShardedListAndWatch, StatefulSetRecreateStrategy, StorageVersionAPI, StorageVersionMigrator, StrictIPCIDRValidation,
		TaintTolerationComparisonOperators, TopologyAwareWorkloadScheduling, UnknownVersionInteroperabilityProxy, UserNamespacesHostNetworkSupport,
		VolumeLimitScaling, WatchListCompression, WebhookRoundTripLoadBalancing, WorkloadWithJob,
		ClearingNominatedNodeNameAfterBinding, MatchLabelKeysInPodTopologySpreadSelectorMerge, MutablePodResourcesForSuspendedJobs,
		MutableSchedulingDirectivesForSuspendedJobs, PodDeletionCost, ServiceCIDRStatusFieldWiping, WatchList,
		AllowInsecureKubeletCertificateSigningRequests, AllowParsingUserUIDFromCertAuth, AuthorizePodWebsocketUpgradeCreatePermission,
		ConstrainedImpersonation, TokenRequestServiceAccountUIDValidation, RemoteRequestHeaderUID,
		KubeletServiceAccountTokenForCredentialProviders, DRAResourceClaimGranularStatusAuthorization,
		StorageVersionHash, RestartAllContainersOnContainerExits, SELinuxMount, OpenAPIEnums,
		TranslateStreamCloseWebsocketRequests, PortForwardWebsockets,
		StructuredAuthenticationConfigurationEgressSelector, StructuredAuthenticationConfigurationJWKSMetrics,
	}, name)
}

// At is the versions that gates are asked for.
type At struct {
	Emulated   *version.Version // whose behaviour is wanted: --emulated-version
	Compatible *version.Version // the oldest of other servers: --min-compatibility-version
}

// Now is the version that this server has without being told.
func Now() At {
	v := version.MustParse(served.Kubernetes)
	v = version.MajorMinor(v.Major(), v.Minor())
	return At{v, v.SubtractMinor(1)}
}

// Gate is a feature gate as kube-apiserver has it in one version.
type Gate struct {
	Default bool
	Stage   string // ALPHA, BETA, GA, DEPRECATED; PREALPHA: it came later
	Locked  bool   // the default cannot be changed

	needs []string // the gates that must be on for it
}

// Known returns every gate by name, also those that came after the version.
func Known(at At) map[string]Gate {
	out := map[string]Gate{}
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		g := Gate{Stage: "PREALPHA"}
		for _, word := range words[1:] {
			g.read(word, at)
		}
		out[words[0]] = g
	}
	return out
}

// read reads needs:NAME, or version:default:stage[:locked][:compatible=version], which holds unless it is too new.
func (g *Gate) read(word string, at At) {
	parts := strings.Split(word, ":")
	if parts[0] == "needs" {
		g.needs = append(g.needs, parts[1])
		return
	}
	holds := !version.MustParse(parts[0]).GreaterThan(at.Emulated)
	locked := false
	for _, more := range parts[3:] {
		if v, ok := strings.CutPrefix(more, "compatible="); ok {
			holds = holds && at.Compatible.AtLeast(version.MustParse(v))
		} else {
			locked = true
		}
	}
	if holds {
		g.Default, g.Stage, g.Locked = parts[1] == "true", parts[2], locked
	}
}

// Set is which gates are on. The zero Set has each as it is by default.
type Set struct {
	on    map[string]bool
	asked map[string]bool // those named in the flag that differ from their default
}

// Parse reads the values of --feature-gates: comma-separated pairs name=bool, each of which may begin with the
// component's name and a colon. It returns every error.
func Parse(values []string, at At) (Set, error) {
	if now := Now(); len(values) == 0 && at.Emulated.EqualTo(now.Emulated) && at.Compatible.EqualTo(now.Compatible) {
		return byDefault(), nil
	}
	return read(values, at)
}

// byDefault is the set without any flag. Many control planes in a process share it.
var byDefault = sync.OnceValue(func() Set {
	set, _ := read(nil, Now()) // nothing is asked for, so nothing is wrong
	return set
})

func read(values []string, at At) (Set, error) {
	known := Known(at)
	asked := map[string]bool{}
	var errs []error
	for _, value := range values {
		for _, pair := range strings.Split(value, ",") {
			if pair = strings.TrimSpace(pair); pair == "" {
				continue
			}
			name, on, err := parse(pair)
			if err == nil {
				err = settable(known, name, on, at)
			}
			if err != nil {
				errs = append(errs, err)
				continue
			}
			asked[name] = on
		}
	}
	out := Set{map[string]bool{}, map[string]bool{}}
	for name, g := range known {
		out.on[name] = g.Default
	}
	stage(out.on, known, asked, "AllAlpha", "ALPHA")
	stage(out.on, known, asked, "AllBeta", "BETA")
	maps.Copy(out.on, asked)
	for name, on := range asked {
		// AllBeta=false is not the default: it turns gates off.
		if on != known[name].Default || name == "AllBeta" {
			out.asked[name] = on
		}
	}
	if len(errs) == 0 {
		errs = out.unmet(known)
	}
	return out, errors.Join(errs...)
}

// unmet returns an error for each gate that is on while one that it needs is off.
func (s Set) unmet(known map[string]Gate) (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(s.on)) {
		if !s.on[name] {
			continue
		}
		off := slices.DeleteFunc(slices.Clone(known[name].needs), func(other string) bool { return s.on[other] })
		if len(off) > 0 {
			errs = append(errs, fmt.Errorf("%s is enabled, but depends on features that are disabled: %v", name, off))
		}
	}
	return errs
}

// parse reads [component:]name=bool.
func parse(pair string) (name string, on bool, err error) {
	if component, rest, ok := strings.Cut(pair, ":"); ok {
		if component != "kube" {
			return "", false, fmt.Errorf("component not registered: %s", component)
		}
		pair = rest
	}
	name, value, ok := strings.Cut(pair, "=")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok {
		return "", false, fmt.Errorf("missing bool value for %s", name)
	}
	if on, err = strconv.ParseBool(value); err != nil {
		return "", false, fmt.Errorf("invalid value of %s=%s, err: %w", name, value, err)
	}
	return name, on, nil
}

func settable(known map[string]Gate, name string, on bool, at At) error {
	g, ok := known[name]
	switch {
	case !ok:
		return fmt.Errorf("unrecognized feature gate: %s", name)
	case g.Locked && on != g.Default:
		return fmt.Errorf("cannot set feature gate %s to %t, feature is locked to %t", name, on, g.Default)
	case g.Stage == "PREALPHA":
		return fmt.Errorf("cannot set feature gate %s to %t, feature is PreAlpha at emulated version %s, min compatibility version %s", name, on, at.Emulated, at.Compatible)
	}
	return nil
}

// stage sets the gates of a stage that were not set by name.
func stage(on map[string]bool, known map[string]Gate, asked map[string]bool, all, stage string) {
	value, ok := asked[all]
	if !ok {
		return
	}
	for name, g := range known {
		if g.Stage == stage && !g.Locked {
			on[name] = value
		}
	}
}

// defaults are the gates that are on in the version that is served when nothing is asked for.
var defaults = sync.OnceValue(func() map[string]bool {
	s, _ := Parse(nil, Now())
	return s.on
})

// Enabled reports whether a gate is on.
func (s Set) Enabled(name string) bool {
	return s.All()[name]
}

// Usual says that each gate is as it is by default in the version that is served.
func (s Set) Usual() bool { return maps.Equal(s.All(), defaults()) }

// Off reports whether a gate is off. One that kube-apiserver no longer has is on.
func (s Set) Off(name string) bool {
	on, known := s.All()[name]
	return known && !on
}

// All returns whether each gate is on. It must not be changed.
func (s Set) All() map[string]bool {
	if s.on == nil {
		return defaults()
	}
	return s.on
}

// Ignored returns the settings, as name=bool, that have no effect on this server, sorted.
func (s Set) Ignored() []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(s.asked)) {
		if !switchable(name) {
			out = append(out, fmt.Sprintf("%s=%t", name, s.asked[name]))
		}
	}
	return out
}
