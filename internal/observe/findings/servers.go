package findings

import (
	"maps"
	"slices"

	"github.com/kanzen-io/kanzen/internal/observe/recorder/v1alpha1"
)

// VersionSetting is the setting that is a server's version. Others are flags.
const VersionSetting = "version"

// servers tells of servers of the cluster that differ. Which of them answers is chance, and so would be the answer.
func (l *look) servers() {
	if l.Servers == nil {
		return
	}
	itself, others := l.Servers(l.ctx)
	for _, o := range others {
		if o.Seen.Before(itself.Seen) {
			continue // it may have ended before this server started
		}
		var flags []string
		for _, name := range slices.Sorted(maps.Keys(itself.Settings)) {
			if theirs, ok := o.Settings[name]; ok && theirs != itself.Settings[name] && name != VersionSetting {
				flags = append(flags, "--"+name)
			}
		}
		ours, theirs := itself.Settings[VersionSetting], o.Settings[VersionSetting]
		isUpgrade := theirs != "" && theirs != ours
		if isUpgrade {
			f := l.find("ServersDiffer", v1alpha1.SeverityInfo, o.Name+"/version", "server %s has another version than %s", o.Host, itself.Host)
			f.Impact = "what the newer one knows is refused or dropped by the older one; that is usual during an upgrade, and should end with it"
			f.Cause = o.Host + " is " + theirs + ", " + itself.Host + " is " + ours
			f.run("kubectl get lease -n kube-system -l apiserver.kubernetes.io/identity=kube-apiserver")
		}
		if len(flags) > 0 {
			severity := v1alpha1.SeverityWarning
			if isUpgrade {
				severity = v1alpha1.SeverityInfo // defaults may differ between versions, and a new version may come with new flags
			}
			f := l.find("ServersDiffer", severity, o.Name+"/flags", "server %s has other settings than %s", o.Host, itself.Host)
			f.Impact = "which of them answers is chance, and so is the answer"
			f.Cause = "they differ in " + listed(flags)
			f.run("kubectl get --raw /flagz  # of each server: name it with --server")
			f.run("kubectl get lease -n kube-system -l apiserver.kubernetes.io/identity=kube-apiserver")
		}
	}
}
