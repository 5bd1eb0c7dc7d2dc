// Package past keeps what the log has forgotten: the changes of the keys below a prefix, on a disk of this machine, beyond the log's
// compaction. It follows the log as any reader does, so that writes neither wait for it nor fail with it, and answers as the log does: a range
// as of a revision, the events after one.
//
// Changes are kept by kind, and those of a kind in segments, one after another (segments.go). A segment tells by itself what each key that
// changed in it was before: so the oldest one can be dropped at any time, by one range deletion. A key that has not changed since a revision is
// in no segment, and the log itself has it. What a key was at a revision is therefore what the first segment that knows the key says, from the
// segment of that revision on, or else the log (read.go).
//
// A value is kept as what distinguishes it from the one before it (delta.go), if that is smaller. Values are those of the log: what is encrypted
// there is encrypted here.
package past
