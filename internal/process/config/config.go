// Package config contains every setting of a server, its defaults, flags and validation. Flags fill a Config; Validate makes of it what the
// process is opened with (Process) and what its control plane is (Plane), which nobody writes any more. Values derived from settings are
// methods here, or belong to the code that uses them.
package config

import (
	"cmp"
	"net"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/kanzen-io/kanzen/internal/access/audit"
	"github.com/kanzen-io/kanzen/internal/object/features"
	"github.com/kanzen-io/kanzen/internal/request/extensions"
)

// Config is every setting of a server, one field for each, named after its flag. Default or Standalone creates it, flags change it, and
// Validate takes it apart. What a field is in decides who has it: those of Process are had once, those of Plane by each control plane.
type Config struct {
	Process
	Plane
	// ShowVersion is what --version asks to print in place of serving: "" (nothing), "true", "raw".
	ShowVersion string

	// given reports whether a flag was given; nil if there were none.
	given func(flag string) bool
}

// Process is what a process is opened with, and what it does once, however many control planes it has. The one at its root does some of
// that, and has these settings for it. All others have the zero value, in which each setting stands for nothing: whatever is added here
// is not theirs.
type Process struct {
	// DataDir contains the embedded etcd and the server's own keys and certificates; empty when run as kube-apiserver.
	DataDir string
	// ClusterKeyFile has the key under which the servers of a cluster share their keys through etcd; ClusterKey is its
	// content if the environment has it.
	ClusterKeyFile, ClusterKey string
	// UnsafeNoFsync makes the embedded etcd fast but not durable, for tests.
	UnsafeNoFsync bool
	// NoListener serves only the in-process transport, for tests.
	NoListener bool
	// Planes serves control planes below the root, at /planes/NAME. PlanesDomain: at NAME.domain too; "": there only. PlanesIdle is
	// after how long without requests one goes to sleep; 0: never.
	Planes       bool
	PlanesDomain string
	PlanesIdle   time.Duration
	// PlanesAwake is how many may be awake; 0: any number.
	PlanesAwake int
	// PlanesDialLocal lets them connect to this machine: to webhooks, extension servers and nodes on loopback and link-local addresses.
	PlanesDialLocal bool
	// PlanesStorage are values of --planes-storage; see StorageClasses.
	PlanesStorage []string

	// etcd
	EtcdServers            []string
	EtcdOverrides          []string // values of --etcd-servers-overrides; see EtcdOverridden
	EtcdCAFile             string
	EtcdCertFile           string
	EtcdKeyFile            string
	EtcdCompactionInterval time.Duration
	// Engine is the database inside this process: EngineEtcd or EnginePebble; "": what is in the data directory, etcd in a new one.
	Engine string
	// Embedded etcd: the member's name, its quota, and where it listens.
	EtcdName                           string
	EtcdQuotaBytes                     int64
	PebbleMaxValueBytes                int // 0: pebble.DefaultMaxValue
	EtcdListenClients, EtcdListenPeers []string

	// scheduled snapshots of etcd
	SnapshotSchedule           string // of cron; empty: none
	SnapshotDir                string
	SnapshotKeep               int           // newest ones; 0: all
	SnapshotKeepFor            time.Duration // 0: for ever
	SnapshotKeysPassphraseFile string        // what seals the keys that are saved with them; empty: none are
	SnapshotS3                 string        // URL of an S3-compatible store; empty: none
	SnapshotS3Bucket           string
	SnapshotS3Prefix           string
	SnapshotS3Region           string
	SnapshotS3CredentialsFile  string
	SnapshotS3CAFile           string

	// flight recorder
	FlightRecorderMemory  int64 // bytes; 0: there is none
	FlightRecorderSlow    time.Duration
	FlightRecorderSample  int
	FlightRecorderDir     string
	FlightRecorderDirSize int64
	FlightRecorderDirAge  time.Duration
	Console               bool
	// History is for how long changes of objects are kept, HistorySize how many bytes of them, HistoryEtcdSize how many in an etcd that
	// servers share, and HistoryKinds are the values of --history-kinds.
	History         time.Duration
	HistorySize     int64
	HistoryEtcdSize int64
	HistoryKinds    []string

	// serving
	BindAddress                             net.IP
	SecurePort                              int
	AdvertiseAddress                        net.IP
	ExternalHostname                        string
	CertDir                                 string
	TLSSANs                                 []string // further names and addresses in the own serving certificate
	TLSCertFile                             string
	TLSKeyFile                              string
	TLSMinVersion                           string
	TLSCipherSuites                         []string
	TLSCurvePreferences                     []int32
	TLSSNICertKeys                          []string // "cert,key" or "cert,key:names"
	DisableHTTP2                            bool
	HTTP2MaxStreams                         int // streams per connection; 0: 100
	PermitPortSharing, PermitAddressSharing bool
	ShutdownDelay                           time.Duration
	ShutdownRetryAfter                      bool
	WatchTermination                        time.Duration // time over which watches end at shutdown

	// PeerCAFile has the authorities of the other API servers of the cluster, to which requests are passed on; empty: none is.
	PeerCAFile string
	// PeerAdvertiseIP and PeerAdvertisePort are where they reach this one, both or none.
	PeerAdvertiseIP, PeerAdvertisePort string
	// The kubernetes service, through which pods reach the API.
	EndpointReconcilerType    string // lease, master-count, none
	APIServerCount            int    // for master-count
	KubernetesServiceNodePort int    // 0: no node port

	// observation
	Profiling           bool
	ContentionProfiling bool
	DebugSocketPath     string
	TracingConfigFile   string
	// EgressSelectorConfigFile configures which connections use proxies.
	EgressSelectorConfigFile string
	// LoggingFormat is text or json.
	LoggingFormat string
	// Flags are the settings by flag, as shown at /flagz.
	Flags map[string]string

	// audit, also of the requests of other control planes
	AuditPolicyFile        string
	AuditLog               audit.LogFile
	AuditLogFormat         string
	AuditLogDelivery       AuditDelivery
	AuditWebhookConfigFile string
	AuditWebhookBackoff    time.Duration
	AuditWebhookDelivery   AuditDelivery

	// What Validate finds in the settings of the control plane at the root: its gates, and the first address of its services.
	gates    *features.Set
	services net.IP
}

// Plane is what a control plane is. Others begin with it; see Hosted and Forked.
type Plane struct {
	Trust
	// Controllers to run in this process, as kube-controller-manager spells
	// them ("*", "namespace", "-namespace"); empty: none.
	Controllers []string
	// WarnWorkloads warns of workloads that no controller or scheduler works on.
	WarnWorkloads bool

	// storage
	EtcdPrefix          string
	EtcdCountMetricPoll time.Duration
	EtcdSizeMetricPoll  time.Duration
	// EtcdHealthTimeout and EtcdReadyTimeout bound how long /healthz, /livez and /readyz wait for etcd.
	// 0 stands for the default.
	EtcdHealthTimeout, EtcdReadyTimeout time.Duration
	// WatchCache says that a list of any revision is the whole list, whatever its limit.
	WatchCache bool
	// EncryptionConfigFile configures encryption; EncryptionConfigReload takes up changes of it.
	EncryptionConfigFile   string
	EncryptionConfigReload bool

	// requests
	PriorityAndFairness bool
	MaxReadOnlyInFlight int
	MaxMutatingInFlight int
	RequestTimeout      time.Duration
	MinRequestTimeout   int // seconds
	MaxRequestBodyBytes int
	CORSAllowedOrigins  []string
	// WebSocketOriginCheck refuses upgrades for pages of other origins; kube-apiserver does not.
	WebSocketOriginCheck bool
	HSTSDirectives       []string
	GoawayChance         float64
	LivezGrace           time.Duration
	// The times of the election of the server that elects the leaders of others.
	CoordinatedLease, CoordinatedRenew, CoordinatedRetry time.Duration
	// AllowMetricLabels, AllowMetricLabelsManifest and DisabledMetrics shape what /metrics shows; see MetricsShape.
	AllowMetricLabels         map[string]string
	AllowMetricLabelsManifest string
	DisabledMetrics           []string

	// users and their tokens
	AnonymousAuth               bool
	ServiceAccountLookup        bool
	ServiceAccountMaxExpiration time.Duration
	ServiceAccountExtend        bool

	// admission
	EnableAdmission  []string
	DisableAdmission []string
	// AdmissionControl are all admission plugins to run; nil: see EnableAdmission.
	AdmissionControl                    []string
	NotReadySeconds, UnreachableSeconds int64
	// WebhookBreaker is for how long a webhook must have failed until it is not waited for; 0: always.
	WebhookBreaker time.Duration
	// WebhookAdvice warns clients of slow webhooks and of configurations that match too much.
	WebhookAdvice bool

	// AggregatorRouting sends requests for services to their endpoints.
	AggregatorRouting bool
	// AggregatorRejectRedirects hides redirects of extension API servers from clients.
	AggregatorRejectRedirects bool

	// connections to kubelets
	KubeletAddressTypes         []string      // of nodes, the preferred first
	KubeletPort                 uint          // of nodes that do not tell theirs
	KubeletTimeout              time.Duration // for connecting
	MaxConnectionBytesPerSecond int64         // of a stream, in each direction; 0: no limit

	// the API
	AllowPrivileged       bool
	EventTTL              time.Duration
	ServiceClusterIPRange string
	ServiceNodePortRange  string

	// versions and features
	FeatureGates            []string // values of --feature-gates
	emulatedVersion         []string // [component=]version
	MinCompatibilityVersion []string // [component=]version
	// EmulationForward and EmulationForwardAsked serve what is newer than the emulated version: more stable versions of what is served, and
	// what --runtime-config names.
	EmulationForward, EmulationForwardAsked bool
	// ReportedVersion is the gitVersion at /version; empty: this program's own.
	ReportedVersion string
	// RuntimeConfig are the values of --runtime-config.
	RuntimeConfig []string
	// ExtensionNames are the values of --extensions.
	ExtensionNames []string

	// What Validate finds: the gates of FeatureGates, whether --anonymous-auth was given, and whether keys and certificates that are not
	// named are made.
	gates          features.Set
	anonymousAsked bool
	ownKeys        bool

	shownPrefix string // see ShownPrefix; set by Hosted
}

// Trust is whom a control plane believes, by what others know it, and whom it asks: files and addresses that are of one cluster. A control
// plane below another has none of it.
type Trust struct {
	// authentication
	AnonymousHealthOnly        bool // no flag: the default of `kanzen serve`
	ClientCAFile               string
	TokenAuthFile              string
	BootstrapTokenAuth         bool
	APIAudiences               []string
	AuthenticationConfigFile   string
	OIDCIssuerURL              string
	OIDCClientID               string
	OIDCCAFile                 string
	OIDCUsernameClaim          string
	OIDCUsernamePrefix         string
	OIDCGroupsClaim            string
	OIDCGroupsPrefix           string
	OIDCSigningAlgorithms      []string
	OIDCRequiredClaims         map[string]string
	TokenWebhookFile           string
	TokenWebhookVersion        string
	TokenWebhookTTL            time.Duration
	RequestHeaderCAFile        string
	RequestHeaderAllowedNames  []string
	RequestHeaderUserHeaders   []string
	RequestHeaderUIDHeaders    []string
	RequestHeaderGroupHeaders  []string
	RequestHeaderExtraPrefixes []string

	// service accounts
	ServiceAccountIssuers    []string
	ServiceAccountKeyFiles   []string
	ServiceAccountSigningKey string
	// ServiceAccountSigningEndpoint is the socket of a program that holds the keys instead.
	ServiceAccountSigningEndpoint string
	ServiceAccountJWKSURI         string

	// authorization and admission
	AuthorizationModes                  []string
	AuthorizationPolicyFile             string
	AuthorizationConfigFile             string
	AuthorizationWebhookFile            string
	AuthorizationWebhookVersion         string
	AuthorizationWebhookAuthorizedTTL   time.Duration
	AuthorizationWebhookUnauthorizedTTL time.Duration
	// AdmissionConfigFile configures plugins.
	AdmissionConfigFile string

	// ProxyClientCertFile and ProxyClientKeyFile identify this server to extension API servers.
	ProxyClientCertFile, ProxyClientKeyFile string
	KubeletCAFile                           string // "": kubelets are not verified
	KubeletCertFile                         string
	KubeletKeyFile                          string
}

// Default returns kube-apiserver's defaults: an etcd cluster, keys and certificates must be configured.
func Default() Config {
	return Config{
		Process: Process{
			EtcdCompactionInterval: 5 * time.Minute,
			SnapshotKeep:           14,
			FlightRecorderSlow:     recorderSlow,
			FlightRecorderSample:   recorderSample,
			FlightRecorderDirSize:  recorderSize,
			HistorySize:            historySize,
			HistoryEtcdSize:        historyEtcdSize,
			FlightRecorderDirAge:   recorderAge,
			BindAddress:            net.IPv4zero,
			SecurePort:             6443,
			CertDir:                "/var/run/kubernetes",
			Profiling:              true,
			LoggingFormat:          "text",
			EndpointReconcilerType: "lease",
			APIServerCount:         1,
			AuditLog:               audit.LogFile{MaxSize: 100, MaxAge: 366, MaxBackups: 100},
			AuditLogFormat:         "json",
			AuditLogDelivery:       auditDelivery("blocking"),
			AuditWebhookBackoff:    10 * time.Second,
			AuditWebhookDelivery:   auditDelivery("batch"),
		},
		Plane: Plane{
			Trust: Trust{
				OIDCUsernameClaim:                   "sub",
				OIDCSigningAlgorithms:               []string{"RS256"},
				TokenWebhookVersion:                 "v1beta1",
				TokenWebhookTTL:                     2 * time.Minute,
				AuthorizationWebhookVersion:         "v1beta1",
				AuthorizationWebhookAuthorizedTTL:   5 * time.Minute,
				AuthorizationWebhookUnauthorizedTTL: 30 * time.Second,
			},
			EtcdPrefix:                "/registry",
			EtcdCountMetricPoll:       time.Minute,
			EtcdSizeMetricPoll:        30 * time.Second,
			EtcdHealthTimeout:         DefaultEtcdTimeout,
			EtcdReadyTimeout:          DefaultEtcdTimeout,
			PriorityAndFairness:       true,
			MaxReadOnlyInFlight:       400,
			MaxMutatingInFlight:       200,
			RequestTimeout:            time.Minute,
			MinRequestTimeout:         1800,
			MaxRequestBodyBytes:       3 << 20,
			CoordinatedLease:          15 * time.Second,
			CoordinatedRenew:          10 * time.Second,
			CoordinatedRetry:          2 * time.Second,
			WatchCache:                true,
			AnonymousAuth:             true,
			ServiceAccountLookup:      true,
			ServiceAccountExtend:      true,
			EventTTL:                  time.Hour,
			ServiceNodePortRange:      "30000-32767",
			KubeletAddressTypes:       []string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"},
			KubeletPort:               10250,
			KubeletTimeout:            5 * time.Second,
			NotReadySeconds:           300,
			AggregatorRejectRedirects: true,
			UnreachableSeconds:        300,
		},
	}
}

// Extensions returns what is added to kube-apiserver's API for those who ask for it.
func (c *Plane) Extensions() extensions.Set {
	on, err := extensions.Parse(c.ExtensionNames)
	if err != nil {
		return extensions.Set{} // Validate has told of it
	}
	return on
}

// ClusterKeyVariable is the environment variable that may have a cluster key in the place of a file.
const ClusterKeyVariable = "KANZEN_CLUSTER_KEY"

// DataDirVariable is the environment variable that may have the data directory of all commands, as in the container image.
const DataDirVariable = "KANZEN_DATA_DIR"

// Standalone returns the defaults of `kanzen serve`: the server creates everything it needs below one directory, and is
// reachable only from this machine.
func Standalone() Config {
	c := Default()
	c.DataDir = defaultDataDir()
	c.Controllers = []string{"*"}
	c.WarnWorkloads = true
	c.FlightRecorderMemory = recorderMemory
	c.FlightRecorderDirSize = standaloneRecorderSize
	c.Console = true
	c.ExtensionNames = []string{"*"}
	c.History = historyAge
	c.WebSocketOriginCheck = true
	c.WebhookAdvice = true
	c.PlanesIdle, c.PlanesAwake = 5*time.Minute, 1000
	c.BindAddress = net.IPv4(127, 0, 0, 1)
	c.AnonymousHealthOnly = true
	c.ClusterKey = os.Getenv(ClusterKeyVariable)
	c.AuthorizationModes = []string{"Node", "RBAC"}
	c.AllowPrivileged = true
	c.ServiceAccountIssuers = []string{"https://kubernetes.default.svc"}
	c.ServiceClusterIPRange = "10.0.0.0/24"
	return c
}

// defaultDataDir returns the directory that the environment names, or the user's directory for data; "" if there is none. Only the
// former can be below the current directory.
func defaultDataDir() string {
	if d := os.Getenv(DataDirVariable); d != "" {
		return d
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "kanzen")
	}
	if d := os.Getenv("LocalAppData"); runtime.GOOS == "windows" && filepath.IsAbs(d) {
		return filepath.Join(d, "kanzen")
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "share", "kanzen")
	}
	if os.Geteuid() == 0 {
		return "/var/lib/kanzen"
	}
	return ""
}

// KeyPrefix returns what all keys in etcd begin with, with slashes around it, as kube-apiserver makes it of --etcd-prefix:
// abc/registry is /abc/registry/.
func (c *Plane) KeyPrefix() string { return path.Join("/", c.EtcdPrefix) + "/" }

// ShownPrefix is what keys begin with in what clients are told. Where a hosted control plane lies is nothing that its users need to know.
func (c *Plane) ShownPrefix() string { return cmp.Or(c.shownPrefix, c.KeyPrefix()) }

// Embedded reports whether the database runs inside this process.
func (c *Process) Embedded() bool { return len(c.EtcdServers) == 0 }

// SharesEtcd reports whether other servers can use the same etcd.
func (c *Process) SharesEtcd() bool {
	return !c.Embedded() || len(c.EtcdListenClients) > 0 || len(c.EtcdListenPeers) > 0
}

// Enabled reports whether a feature gate is on.
func (c *Process) Enabled(gate string) bool { return c.gates != nil && c.gates.Enabled(gate) }

// Hostname returns the external name of the server, or the machine's name.
func (c *Process) Hostname() string {
	if c.ExternalHostname != "" {
		return c.ExternalHostname
	}
	h, err := os.Hostname()
	if err != nil {
		return "localhost"
	}
	return h
}

// Reached returns the name or address by which clients reach the server.
func (c *Process) Reached() (string, error) {
	if c.ExternalHostname != "" {
		return c.ExternalHostname, nil
	}
	ip, err := c.Advertise()
	return ip.String(), err
}

// Address returns where clients reach the server, which listens on a port; without an address to advertise by the name of the machine.
func (c *Process) Address(port int) string {
	host, err := c.Reached()
	if err != nil {
		host = c.Hostname()
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

// CORSOrigins returns the origins whose scripts may use the API.
func (c *Plane) CORSOrigins() []*regexp.Regexp {
	var out []*regexp.Regexp
	for _, o := range c.CORSAllowedOrigins {
		if re, err := regexp.Compile(o); err == nil { // cannot fail: Validate has compiled it
			out = append(out, re)
		}
	}
	return out
}

// ServiceAddress returns the address of the kubernetes service of the control plane at the root.
func (c *Process) ServiceAddress() net.IP { return c.services }

// FirstAddress returns the first address of a range.
func FirstAddress(r *net.IPNet) net.IP {
	ip := append(net.IP{}, r.IP...)
	ip[len(ip)-1]++
	return ip
}

// Audiences returns the API server's own audiences.
func (c *Plane) Audiences() []string {
	if len(c.APIAudiences) > 0 {
		return c.APIAudiences
	}
	return slices.Clone(c.ServiceAccountIssuers)
}
