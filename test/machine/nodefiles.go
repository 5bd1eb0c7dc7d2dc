//go:build linux

package machine

import (
	"os"
	"path/filepath"
	"strings"
)

// CNIPlugins is where the distribution puts them.
const CNIPlugins = "/usr/lib/cni"

// WriteNodeFiles writes what containerd and the pods' network read on a node, and more files. Names that begin with $ are replaced in all of
// them: those of the node, and pairs of a name and its value.
func WriteNodeFiles(l Layout, number int, files map[string]string, pairs ...string) error {
	values := strings.NewReplacer(append([]string{"$NODE", NodeName(number), "$ADDRESS", NodeAddress(number), "$MACHINE", Address, "$PODS", PodsOf(number), "$ALLPODS", PodRange,
		"$SERVICES", ServiceRange, "$DNS", ServiceOfDNS, "$DOMAIN", Domain, "$CGROUPS", "/" + l.Group + "/" + NodeName(number), "$CONFIG", l.Config(number, ""), "$PAUSE", PauseImage,
		"$CNI", CNIPlugins}, pairs...)...)
	all := map[string]string{
		"containerd.toml": containerdConfig, "cni/10-pods.conflist": podNetwork,
		"resolv.conf": "# Nothing outside the cluster has a name.\n",
	}
	for name, text := range files {
		all[name] = text
	}
	for name, text := range all {
		path := l.Config(number, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(values.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

const containerdConfig = `version = 3
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]

[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "$PAUSE"

# Containers are killed for memory no later than the machine's own programs, where these may not ask for better.
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true

[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["$CNI"]
conf_dir = "$CONFIG/cni"

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

# Specs of runtime classes ask for a handler of this name.
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.test-handler]
runtime_type = "io.containerd.runc.v2"
`

// Each pod has a link to its node, and no bridge: its packets always pass through the rules of kube-proxy.
const podNetwork = `{
  "cniVersion": "0.4.0",
  "name": "pods",
  "plugins": [
    {"type": "ptp", "ipMasq": false, "ipam": {"type": "host-local", "ranges": [[{"subnet": "$PODS"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`
