package config

import (
	"os"
	"path/filepath"

	"github.com/robfig/cron/v3"
	"github.com/spf13/pflag"
)

// This file contains the settings of scheduled snapshots.

func (c *Config) addSnapshotFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.SnapshotSchedule, "snapshot-schedule", c.SnapshotSchedule, "When to take snapshots of etcd: five fields as of cron (\"0 */6 * * *\"), or \"@every 6h\"; none: never. Each is verified by restoring it.")
	fs.StringVar(&c.SnapshotDir, "snapshot-dir", c.SnapshotDir, "Directory that keeps scheduled snapshots.")
	fs.IntVar(&c.SnapshotKeep, "snapshot-keep", c.SnapshotKeep, "How many scheduled snapshots are kept; 0: all.")
	fs.DurationVar(&c.SnapshotKeepFor, "snapshot-keep-for", c.SnapshotKeepFor, "How long scheduled snapshots are kept; 0: for ever. The newest one stays.")
	fs.StringVar(&c.SnapshotKeysPassphraseFile, "snapshot-keys-passphrase-file", c.SnapshotKeysPassphraseFile, "File with a passphrase. The keys and certificates in --data-dir, and the file of --encryption-provider-config, are sealed with it and kept beside each scheduled snapshot as NAME.keys; none: scheduled snapshots come without keys.")
	fs.StringVar(&c.SnapshotS3, "snapshot-s3-url", c.SnapshotS3, "URL of an S3-compatible store that keeps scheduled snapshots: https://s3.eu-central-1.amazonaws.com. Credentials come from --snapshot-s3-credentials-file or from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
	fs.StringVar(&c.SnapshotS3Bucket, "snapshot-s3-bucket", c.SnapshotS3Bucket, "Bucket of scheduled snapshots.")
	fs.StringVar(&c.SnapshotS3Prefix, "snapshot-s3-prefix", c.SnapshotS3Prefix, "What the names of scheduled snapshots in the bucket begin with: clusters/one.")
	fs.StringVar(&c.SnapshotS3Region, "snapshot-s3-region", c.SnapshotS3Region, "Region of the bucket; none: asked of the store.")
	fs.StringVar(&c.SnapshotS3CredentialsFile, "snapshot-s3-credentials-file", c.SnapshotS3CredentialsFile, "File with the credentials of the store, as AWS's programs have it.")
	fs.StringVar(&c.SnapshotS3CAFile, "snapshot-s3-cafile", c.SnapshotS3CAFile, "Authorities of the store's certificate; none: the system's.")
}

func (c *Config) validateSnapshots(bad reporter) {
	if c.SnapshotKeep < 0 {
		bad("snapshot-keep", "must not be negative")
	}
	if c.SnapshotKeepFor < 0 {
		bad("snapshot-keep-for", "must not be negative")
	}
	if c.SnapshotS3 == "" {
		for flag, value := range map[string]string{"snapshot-s3-prefix": c.SnapshotS3Prefix, "snapshot-s3-region": c.SnapshotS3Region,
			"snapshot-s3-credentials-file": c.SnapshotS3CredentialsFile, "snapshot-s3-cafile": c.SnapshotS3CAFile} {
			if value != "" {
				bad(flag, "goes together with --snapshot-s3-url")
			}
		}
	}
	if (c.SnapshotS3 == "") != (c.SnapshotS3Bucket == "") {
		bad("snapshot-s3-bucket", "goes together with --snapshot-s3-url")
	}
	if c.SnapshotSchedule == "" {
		if c.SnapshotKeysPassphraseFile != "" {
			bad("snapshot-keys-passphrase-file", "goes together with --snapshot-schedule")
		}
		if c.SnapshotDir != "" || c.SnapshotS3 != "" {
			bad("snapshot-schedule", "say when snapshots are taken ('@every 6h'), as --snapshot-dir and --snapshot-s3-url say where they go")
		}
		return
	}
	if c.SnapshotKeysPassphraseFile != "" && c.DataDir == "" {
		bad("snapshot-keys-passphrase-file", "needs --data-dir, which has the keys")
	}
	if _, err := cron.ParseStandard(c.SnapshotSchedule); err != nil {
		bad("snapshot-schedule", "%v", err)
	}
	if c.SnapshotDir == "" && c.SnapshotS3 == "" {
		bad("snapshot-schedule", "needs a place: --snapshot-dir or --snapshot-s3-url")
	}
}

// SnapshotWork returns the directory in which snapshots are made before they are kept: on the file system that keeps
// them, if there is one.
func (c *Process) SnapshotWork() string {
	switch {
	case c.SnapshotDir != "":
		return filepath.Join(c.SnapshotDir, ".work")
	case c.DataDir != "":
		return filepath.Join(c.DataDir, "snapshots")
	}
	return os.TempDir()
}
