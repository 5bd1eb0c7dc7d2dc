package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// StorageClass is an etcd in which planes can lie.
type StorageClass struct {
	Name    string
	Servers []string
	Files   EtcdFiles
}

// StorageClasses returns those of --planes-storage.
func (c *Process) StorageClasses() (out []StorageClass, err error) {
	taken := map[string]string{}
	for _, server := range c.EtcdServers {
		taken[server] = "--etcd-servers"
	}
	for _, value := range c.PlanesStorage {
		s, err := c.storageClass(value)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", value, err)
		}
		if slices.ContainsFunc(out, func(o StorageClass) bool { return o.Name == s.Name }) {
			return nil, fmt.Errorf("%q is given twice", s.Name)
		}
		for _, server := range s.Servers {
			// Planes have the same keys in every etcd: one that moved from an etcd to itself would be lost.
			if other := taken[server]; other != "" {
				return nil, fmt.Errorf("%q: %s is that of %s already", value, server, other)
			}
			taken[server] = fmt.Sprintf("%q", s.Name)
		}
		out = append(out, s)
	}
	return out, nil
}

func (c *Process) storageClass(value string) (s StorageClass, err error) {
	fields := strings.Split(value, ",")
	name, servers, ok := strings.Cut(fields[0], "=")
	if !ok {
		return s, fmt.Errorf("must be of the form NAME=https://10.0.0.1:2379;https://10.0.0.2:2379")
	}
	if wrong := validation.IsDNS1123Label(name); len(wrong) > 0 {
		return s, fmt.Errorf("%q is not a name: %s", name, strings.Join(wrong, "; "))
	}
	s = StorageClass{name, strings.Split(servers, ";"), EtcdFiles{}}
	for _, server := range s.Servers {
		if !isEtcdServer(server) {
			return s, fmt.Errorf("%q is not a URL like https://10.0.0.1:2379", server)
		}
	}
	f := EtcdFiles{caSetting: "cafile", certSetting: "certfile"}
	for _, field := range fields[1:] {
		key, file, _ := strings.Cut(field, "=")
		to, ok := map[string]*string{"cafile": &f.CA, "certfile": &f.Cert, "keyfile": &f.Key}[key]
		if !ok || file == "" {
			return s, fmt.Errorf("%q is none of cafile=FILE, certfile=FILE, keyfile=FILE", field)
		}
		*to = file
	}
	if (f.Cert == "") != (f.Key == "") {
		return s, fmt.Errorf("certfile goes together with keyfile")
	}
	f.CA = cmp.Or(f.CA, c.EtcdCAFile)
	if f.Cert == "" {
		f.Cert, f.Key = c.EtcdCertFile, c.EtcdKeyFile
	}
	s.Files = f
	return s, nil
}
