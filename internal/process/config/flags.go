package config

import (
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// AddFlags binds the flags to a Config, whose values are their defaults.
func (c *Config) AddFlags(fs *pflag.FlagSet, standalone bool) {
	groups := []flagGroup{
		{"etcd", c.addEtcdFlags},
		{"Snapshots", c.addSnapshotFlags},
		{"Flight recorder", c.addRecorderFlags},
		{"History", c.addHistoryFlags},
		{"Serving", c.addServingFlags},
		{"Authentication and service accounts", c.addAuthFlags},
		{"Authorization", c.addAuthorizationFlags},
		{"Admission", c.addAdmissionFlags},
		{"The API", c.addAPIFlags},
		{"Versions and features", c.addCompatibilityFlags},
		{"Extension API servers", c.addAggregatorFlags},
		{"The kubernetes service", c.addKubernetesServiceFlags},
		{"Kubelets", c.addKubeletFlags},
		{"Audit", c.addAuditFlags},
		{"Logs", c.addLogFlags},
		{WithoutEffect, addHarmless},
	}
	if standalone {
		groups = slices.Insert(groups, 0, flagGroup{"This server", c.addStandaloneFlags})
	}
	for _, g := range groups {
		part := pflag.NewFlagSet(g.name, pflag.ContinueOnError)
		g.add(part)
		part.VisitAll(func(f *pflag.Flag) {
			if f.Annotations == nil {
				f.Annotations = map[string][]string{}
			}
			f.Annotations[groupAnnotation] = []string{g.name}
			fs.AddFlag(f)
		})
	}
	c.given = fs.Changed
}

// flagGroup is flags that the help shows together.
type flagGroup struct {
	name string
	add  func(fs *pflag.FlagSet)
}

const groupAnnotation = "group"

// WithoutEffect is the group of the flags that are accepted and ignored.
const WithoutEffect = "Without effect on this server, accepted because kube-apiserver has them"

// Group returns the group of a flag, as the help shows it.
func Group(f *pflag.Flag) string {
	if g := f.Annotations[groupAnnotation]; len(g) > 0 {
		return g[0]
	}
	return "Other"
}

func (c *Config) addStandaloneFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "Directory of the embedded etcd and of the server's own keys and certificates; made if missing.")
	c.addEmbeddedFlags(fs)
	fs.StringSliceVar(&c.Controllers, "controllers", c.Controllers, "Controllers to run in this process: '*' for all, 'name' to add one, '-name' to leave one out; empty for none.")
	fs.StringVar(&c.ClusterKeyFile, "cluster-key-file", c.ClusterKeyFile, "File with the key (32 bytes or more in base64) under which the servers of a cluster share authorities and service-account keys through etcd; further lines are former keys. (default: the environment variable "+ClusterKeyVariable+"; without one nothing is shared)")
	fs.BoolVar(&c.Planes, "planes", c.Planes, "Serve control planes below this one, each at /planes/NAME: the API planes.kanzen.io has them.")
	fs.StringVar(&c.PlanesDomain, "planes-domain", c.PlanesDomain, "Serve planes at NAME.DOMAIN too, by the name that clients send in TLS; the serving certificate gets *.DOMAIN.")
	fs.DurationVar(&c.PlanesIdle, "planes-idle", c.PlanesIdle, "After how long without requests a plane goes to sleep; the next request wakes it. 0: never.")
	fs.IntVar(&c.PlanesAwake, "planes-awake", c.PlanesAwake, "How many planes may be awake; beyond that, the one that was not used for the longest time goes to sleep. 0: any number.")
	fs.BoolVar(&c.PlanesDialLocal, "planes-dial-local", c.PlanesDialLocal, "Let planes connect to webhooks, extension servers and nodes on loopback and link-local addresses, which reach what only this machine may.")
	fs.StringArrayVar(&c.PlanesStorage, "planes-storage", c.PlanesStorage, "Storage class for planes: an etcd that Planes name in spec.storageClass, as NAME=SERVERS, the servers' URLs separated by semicolons; then ,cafile=FILE ,certfile=FILE ,keyfile=FILE if they are not those of --etcd-cafile, --etcd-certfile and --etcd-keyfile. May be given several times. All servers of an etcd need the same.")
	fs.StringSliceVar(&c.TLSSANs, "tls-san", c.TLSSANs, "Further names and addresses in the serving certificate that the server makes for itself.")
}

func (c *Config) addLogFlags(fs *pflag.FlagSet) {
	fs.StringP("v", "v", "0", "How much to log: 0 warnings, 1 and 2 information, 3 each request too, 4 and above everything.")
	fs.StringVar(&c.LoggingFormat, "logging-format", c.LoggingFormat, "Format of the log: text or json.")
}

func (c *Config) addAdmissionFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.EnableAdmission, "enable-admission-plugins", c.EnableAdmission, "Admission plugins to run beside those on by default.")
	fs.StringSliceVar(&c.DisableAdmission, "disable-admission-plugins", c.DisableAdmission, "Admission plugins not to run although they are on by default.")
	fs.StringVar(&c.AdmissionConfigFile, "admission-control-config-file", c.AdmissionConfigFile, "File that configures admission plugins.")
	fs.Int64Var(&c.NotReadySeconds, "default-not-ready-toleration-seconds", c.NotReadySeconds, "How long pods tolerate a node that is not ready, if they do not say.")
	fs.Int64Var(&c.UnreachableSeconds, "default-unreachable-toleration-seconds", c.UnreachableSeconds, "How long pods tolerate a node that is unreachable, if they do not say.")
	fs.BoolVar(&c.AllowPrivileged, "allow-privileged", c.AllowPrivileged, "Allow privileged containers.")
}

func (c *Config) addAggregatorFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.AggregatorRouting, "enable-aggregator-routing", c.AggregatorRouting, "Send requests for services to their endpoints and not their cluster IP.")
	fs.BoolVar(&c.AggregatorRejectRedirects, "aggregator-reject-forwarding-redirect", c.AggregatorRejectRedirects, "Do not pass redirects of extension API servers on to clients; otherwise those that stay on this server are.")
	fs.StringVar(&c.ProxyClientCertFile, "proxy-client-cert-file", c.ProxyClientCertFile, "Client certificate by which extension API servers know this server as a front proxy.")
	fs.StringVar(&c.ProxyClientKeyFile, "proxy-client-key-file", c.ProxyClientKeyFile, "Key of that certificate.")
}

func (c *Config) addAPIFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&c.EventTTL, "event-ttl", c.EventTTL, "How long events are kept.")
	fs.StringVar(&c.ServiceClusterIPRange, "service-cluster-ip-range", c.ServiceClusterIPRange, "Range of the addresses of services, or two of different families, separated by a comma.")
	fs.StringVar(&c.ServiceNodePortRange, "service-node-port-range", c.ServiceNodePortRange, "Range of the ports that services open on nodes.")
}

func (c *Config) addKubernetesServiceFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.EndpointReconcilerType, "endpoint-reconciler-type", c.EndpointReconcilerType, "How the servers of a cluster know of each other, to be the endpoints of the kubernetes service: lease, master-count, none.")
	fs.IntVar(&c.KubernetesServiceNodePort, "kubernetes-service-node-port", c.KubernetesServiceNodePort, "Port that the kubernetes service opens on nodes; 0: none.")
	fs.IntVar(&c.APIServerCount, "apiserver-count", c.APIServerCount, "How many servers the cluster has, for --endpoint-reconciler-type=master-count.")
	_ = fs.MarkDeprecated("apiserver-count", "--endpoint-reconciler-type=lease needs no number") // fails only for unknown flags
}

func (c *Config) addKubeletFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.KubeletAddressTypes, "kubelet-preferred-address-types", c.KubeletAddressTypes, "Types of the node addresses by which kubelets are reached, the preferred first.")
	fs.UintVar(&c.KubeletPort, "kubelet-port", c.KubeletPort, "Port of kubelets whose node does not tell it.")
	_ = fs.MarkDeprecated("kubelet-port", "nodes tell the port of their kubelet") // fails only for unknown flags
	fs.StringVar(&c.KubeletCAFile, "kubelet-certificate-authority", c.KubeletCAFile, "Authorities of kubelets' certificates; none: they are not verified.")
	fs.StringVar(&c.KubeletCertFile, "kubelet-client-certificate", c.KubeletCertFile, "Client certificate for kubelets.")
	fs.StringVar(&c.KubeletKeyFile, "kubelet-client-key", c.KubeletKeyFile, "Key of the client certificate for kubelets.")
	fs.DurationVar(&c.KubeletTimeout, "kubelet-timeout", c.KubeletTimeout, "How long connecting to a kubelet may take; 0: no limit.")
	fs.Int64Var(&c.MaxConnectionBytesPerSecond, "max-connection-bytes-per-sec", c.MaxConnectionBytesPerSecond, "Bytes per second that a user's stream (exec, port-forward and others) may carry in each direction; 0: no limit.")
}

func (c *Config) addEtcdFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&c.EtcdServers, "etcd-servers", c.EtcdServers, "URLs of an etcd cluster; none: etcd runs in this process.")
	fs.StringSliceVar(&c.EtcdOverrides, "etcd-servers-overrides", c.EtcdOverrides, "Resources that lie in another etcd: group/resource#servers, the servers' URLs separated by semicolons. For built-in resources.")
	fs.StringVar(&c.EtcdPrefix, "etcd-prefix", c.EtcdPrefix, "What all keys in etcd begin with.")
	fs.StringVar(&c.EtcdCAFile, "etcd-cafile", c.EtcdCAFile, "Authority of the etcd servers' certificates.")
	fs.StringVar(&c.EtcdCertFile, "etcd-certfile", c.EtcdCertFile, "Client certificate for etcd.")
	fs.StringVar(&c.EtcdKeyFile, "etcd-keyfile", c.EtcdKeyFile, "Key of the client certificate for etcd.")
	fs.DurationVar(&c.EtcdCountMetricPoll, "etcd-count-metric-poll-period", c.EtcdCountMetricPoll, "How long a count of a resource's objects holds for metrics; 0: there are no such metrics.")
	fs.DurationVar(&c.EtcdSizeMetricPoll, "etcd-db-metric-poll-interval", c.EtcdSizeMetricPoll, "How long the size of etcd's database holds for metrics; 0: there is no such metric.")
	fs.DurationVar(&c.EtcdCompactionInterval, "etcd-compaction-interval", c.EtcdCompactionInterval, "How often etcd is compacted; 0: not by this server.")
	fs.DurationVar(&c.EtcdHealthTimeout, "etcd-healthcheck-timeout", c.EtcdHealthTimeout, "How long /healthz and /livez wait for etcd.")
	fs.DurationVar(&c.EtcdReadyTimeout, "etcd-readycheck-timeout", c.EtcdReadyTimeout, "How long /readyz waits for etcd.")
	fs.StringVar(&c.EncryptionConfigFile, "encryption-provider-config", c.EncryptionConfigFile, "File of an EncryptionConfiguration: which resources are encrypted in etcd, and with which keys.")
	fs.BoolVar(&c.WatchCache, "watch-cache", c.WatchCache, "Answer a list of any revision (resourceVersion=0) with the whole list, whatever its limit. Reads are answered from memory in either case.")
	fs.BoolVar(&c.EncryptionConfigReload, "encryption-provider-config-automatic-reload", c.EncryptionConfigReload, "Take up changes of the file of --encryption-provider-config.")
}

func (c *Config) addServingFlags(fs *pflag.FlagSet) {
	fs.IPVar(&c.BindAddress, "bind-address", c.BindAddress, "Address to listen on.")
	fs.IntVar(&c.SecurePort, "secure-port", c.SecurePort, "Port to serve HTTPS on.")
	fs.BoolVar(&c.PermitPortSharing, "permit-port-sharing", c.PermitPortSharing, "Let other servers listen on the same address and port, if they permit it too (SO_REUSEPORT). Not on Windows.")
	fs.BoolVar(&c.PermitAddressSharing, "permit-address-sharing", c.PermitAddressSharing, "Take the port while connections of an earlier server linger, as is usual on Unix in any case (SO_REUSEADDR). Not on Windows.")
	fs.IPVar(&c.AdvertiseAddress, "advertise-address", c.AdvertiseAddress, "Address by which the cluster reaches this server.")
	fs.StringVar(&c.ExternalHostname, "external-hostname", c.ExternalHostname, "Host name in addresses that this server tells of itself.")
	fs.StringVar(&c.CertDir, "cert-dir", c.CertDir, "Directory of apiserver.crt and apiserver.key, made if no certificate is named.")
	fs.StringVar(&c.TLSCertFile, "tls-cert-file", c.TLSCertFile, "Serving certificate.")
	fs.StringVar(&c.TLSKeyFile, "tls-private-key-file", c.TLSKeyFile, "Key of the serving certificate.")
	fs.StringVar(&c.TLSMinVersion, "tls-min-version", c.TLSMinVersion, "Oldest TLS version served: VersionTLS12, VersionTLS13, ...")
	fs.StringSliceVar(&c.TLSCipherSuites, "tls-cipher-suites", c.TLSCipherSuites, "Cipher suites served with TLS 1.2; none: Go's own.")
	fs.Int32SliceVar(&c.TLSCurvePreferences, "tls-curve-preferences", c.TLSCurvePreferences, "Key exchanges offered, by the numbers of Go's crypto/tls CurveID (23 is P-256, 29 is X25519, 4588 is X25519MLKEM768), in no order; none: Go's own.")
	fs.BoolVar(&c.DisableHTTP2, "disable-http2-serving", c.DisableHTTP2, "Serve HTTP/1.1 only.")
	fs.IntVar(&c.HTTP2MaxStreams, "http2-max-streams-per-connection", c.HTTP2MaxStreams, "Requests at a time on one HTTP/2 connection; 0: 100.")
	fs.BoolVar(&c.PriorityAndFairness, "enable-priority-and-fairness", c.PriorityAndFairness, "Share the server among requests by FlowSchemas and PriorityLevelConfigurations.")
	fs.IntVar(&c.MaxReadOnlyInFlight, "max-requests-inflight", c.MaxReadOnlyInFlight, "With priority and fairness, its sum with the next flag is the server's seats; without, reading requests at a time, 0: no limit.")
	fs.IntVar(&c.MaxMutatingInFlight, "max-mutating-requests-inflight", c.MaxMutatingInFlight, "As --max-requests-inflight, for requests that write.")
	fs.DurationVar(&c.RequestTimeout, "request-timeout", c.RequestTimeout, "How long a request may take, if it is not a watch or stream.")
	fs.IntVar(&c.MinRequestTimeout, "min-request-timeout", c.MinRequestTimeout, "Seconds after which a watch ends at the earliest.")
	fs.IntVar(&c.MaxRequestBodyBytes, "max-request-body-bytes", c.MaxRequestBodyBytes, "Largest body of a request. Larger objects need a database that stores them: --engine=pebble and --pebble-max-value-bytes.")
	fs.BoolVar(&c.WebSocketOriginCheck, "websocket-origin-check", c.WebSocketOriginCheck, "Refuse websockets and other upgrades that a page of another origin than this host and --cors-allowed-origins has a browser open, since browsers send client certificates unasked. kube-apiserver does not look.")
	fs.StringSliceVar(&c.CORSAllowedOrigins, "cors-allowed-origins", c.CORSAllowedOrigins, "Origins allowed by CORS, as regular expressions.")
	fs.StringSliceVar(&c.HSTSDirectives, "strict-transport-security-directives", c.HSTSDirectives, "Directives of the HSTS header; none: no header.")
	fs.Float64Var(&c.GoawayChance, "goaway-chance", c.GoawayChance, "Chance that a client on HTTP/2 is asked to connect anew, 0 to 0.02.")
	fs.DurationVar(&c.ShutdownDelay, "shutdown-delay-duration", c.ShutdownDelay, "How long to go on serving, unready, before shutting down.")
	fs.BoolVar(&c.ShutdownRetryAfter, "shutdown-send-retry-after", c.ShutdownRetryAfter, "Answer 429 while shutting down.")
	fs.DurationVar(&c.WatchTermination, "shutdown-watch-termination-grace-period", c.WatchTermination, "Over how long watches are ended one by one when shutting down; 0: all at once.")
	fs.StringArrayVar(&c.TLSSNICertKeys, "tls-sni-cert-key", c.TLSSNICertKeys, "Serving certificate and key for some names: cert,key or cert,key:name,name. May be given several times.")
	fs.StringVar(&c.DebugSocketPath, "debug-socket-path", c.DebugSocketPath, "Unix socket that serves profiles without authentication, to who may open it.")
	fs.StringVar(&c.TracingConfigFile, "tracing-config-file", c.TracingConfigFile, "File of a TracingConfiguration.")
	fs.StringVar(&c.EgressSelectorConfigFile, "egress-selector-config-file", c.EgressSelectorConfigFile, "File of an EgressSelectorConfiguration: which of the server's own connections go through proxies.")
	fs.DurationVar(&c.CoordinatedLease, "coordinated-leadership-lease-duration", c.CoordinatedLease, "How long servers wait before they replace the one that elects leaders, and does not renew its own lease.")
	fs.DurationVar(&c.CoordinatedRenew, "coordinated-leadership-renew-deadline", c.CoordinatedRenew, "How long the server that elects leaders tries to renew its lease before it gives up.")
	fs.DurationVar(&c.CoordinatedRetry, "coordinated-leadership-retry-period", c.CoordinatedRetry, "How often a server tries to become the one that elects leaders, or to remain it.")
	fs.DurationVar(&c.LivezGrace, "livez-grace-period", c.LivezGrace, "How long /livez is patient with starting up.")
	c.addMetricsFlags(fs)
	c.addPeerFlags(fs)
	fs.BoolVar(&c.Profiling, "profiling", c.Profiling, "Serve /debug/pprof.")
	fs.BoolVar(&c.ContentionProfiling, "contention-profiling", c.ContentionProfiling, "With --profiling, record where goroutines wait for each other (/debug/pprof/block).")
}

func (c *Config) addAuthFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&c.AnonymousAuth, "anonymous-auth", c.AnonymousAuth, "Let requests without credentials in as system:anonymous.")
	c.addTokenFlags(fs)
	fs.StringVar(&c.ClientCAFile, "client-ca-file", c.ClientCAFile, "Authorities of client certificates.")
	fs.StringVar(&c.TokenAuthFile, "token-auth-file", c.TokenAuthFile, "CSV file of bearer tokens: token,user,uid,\"groups\".")
	fs.BoolVar(&c.BootstrapTokenAuth, "enable-bootstrap-token-auth", c.BootstrapTokenAuth, "Accept the bootstrap tokens in kube-system.")
	fs.StringSliceVar(&c.APIAudiences, "api-audiences", c.APIAudiences, "Audiences that service-account tokens must be for. (default: the issuers)")
	fs.StringVar(&c.RequestHeaderCAFile, "requestheader-client-ca-file", c.RequestHeaderCAFile, "Authorities of the front proxy's certificate.")
	fs.StringSliceVar(&c.RequestHeaderAllowedNames, "requestheader-allowed-names", c.RequestHeaderAllowedNames, "Common names of front proxies; none: any.")
	fs.StringSliceVar(&c.RequestHeaderUserHeaders, "requestheader-username-headers", c.RequestHeaderUserHeaders, "Headers in which a front proxy names the user.")
	fs.StringSliceVar(&c.RequestHeaderUIDHeaders, "requestheader-uid-headers", c.RequestHeaderUIDHeaders, "Headers in which a front proxy gives the user's UID.")
	fs.StringSliceVar(&c.RequestHeaderGroupHeaders, "requestheader-group-headers", c.RequestHeaderGroupHeaders, "Headers in which a front proxy names the user's groups.")
	fs.StringSliceVar(&c.RequestHeaderExtraPrefixes, "requestheader-extra-headers-prefix", c.RequestHeaderExtraPrefixes, "Prefixes of headers in which a front proxy says more of the user.")
	fs.StringArrayVar(&c.ServiceAccountIssuers, "service-account-issuer", c.ServiceAccountIssuers, "Issuer of service-account tokens; further ones are accepted too.")
	fs.StringArrayVar(&c.ServiceAccountKeyFiles, "service-account-key-file", c.ServiceAccountKeyFiles, "Keys that verify service-account tokens. (default: the signing key)")
	fs.StringVar(&c.ServiceAccountSigningKey, "service-account-signing-key-file", c.ServiceAccountSigningKey, "Key that signs service-account tokens.")
	fs.BoolVar(&c.ServiceAccountLookup, "service-account-lookup", c.ServiceAccountLookup, "Accept a service-account token only while its secret exists.")
	fs.StringVar(&c.ServiceAccountJWKSURI, "service-account-jwks-uri", c.ServiceAccountJWKSURI, "Where others find the keys that verify service-account tokens.")
	fs.DurationVar(&c.ServiceAccountMaxExpiration, "service-account-max-token-expiration", c.ServiceAccountMaxExpiration, "Longest life of a service-account token.")
	fs.BoolVar(&c.ServiceAccountExtend, "service-account-extend-token-expiration", c.ServiceAccountExtend, "Let the tokens of pods live longer than asked, for clients that do not reload them.")
}

// harmless are kube-apiserver's flags that this server accepts and ignores: they tune something that it does not have
// or need. Other unknown flags are errors, because ignoring them could change what a cluster allows, hides or
// remembers.
var harmless = map[string]string{
	"delete-collection-workers": "string",
	"enable-garbage-collector":  "bool", "enable-logs-handler": "bool",
	"kubelet-read-only-port":       "string",
	"lease-reuse-duration-seconds": "string", "log-flush-frequency": "string", "log-json-info-buffer-size": "string", "log-json-split-stream": "bool",
	"log-text-info-buffer-size": "string", "log-text-split-stream": "bool",
	"show-hidden-metrics-for-version": "string", "storage-backend": "string",
	"storage-initialization-timeout": "string", "storage-media-type": "string",
	"vmodule": "string", "watch-cache-sizes": "string",
}

func addHarmless(fs *pflag.FlagSet) {
	const usage = "No effect."
	for name, kind := range harmless {
		if kind == "bool" {
			fs.Bool(name, false, usage)
		} else {
			fs.StringSlice(name, nil, usage)
		}
	}
}

// WarnIgnored logs the given flags, and values of flags, that have no effect.
func (c *Plane) WarnIgnored(fs *pflag.FlagSet, log *slog.Logger) {
	c.warnCompatibility(log)
	var given []string
	fs.Visit(func(f *pflag.Flag) {
		if _, ok := harmless[f.Name]; ok {
			given = append(given, "--"+f.Name)
		}
	})
	if len(given) > 0 {
		slices.Sort(given)
		log.Warn("flags without effect on this server", "flags", strings.Join(given, " "))
	}
}

// Advertise returns the address in the kubernetes service's endpoints.
func (c *Process) Advertise() (net.IP, error) {
	if c.AdvertiseAddress != nil && !c.AdvertiseAddress.IsUnspecified() {
		return c.AdvertiseAddress, nil
	}
	if c.BindAddress != nil && !c.BindAddress.IsUnspecified() {
		return c.BindAddress, nil
	}
	bind := c.BindAddress
	if c.services.To4() != nil {
		bind = net.IPv4zero // a server that listens on all IPv6 addresses also listens on all IPv4 addresses
	}
	ip, err := utilnet.ResolveBindAddress(bind) // address of the default route's interface, of bind's family
	if err != nil {
		return nil, fmt.Errorf("no address to advertise; name one with --advertise-address: %w", err)
	}
	return ip, nil
}
