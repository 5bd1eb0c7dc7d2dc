package evidence

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// A run is of one server. What it said is kept in a folder, where the next run on the other server finds it.

func lastRun(folder, server string) string { return filepath.Join(folder, "last-"+server+".json") }

// KeepRun writes down what a run said about a server.
func KeepRun[T any](folder, server string, ran T) error {
	b, err := json.Marshal(ran)
	if err != nil {
		return err
	}
	return os.WriteFile(lastRun(folder, server), b, 0o644)
}

// LastRuns reads what the last runs said, by the names of the servers.
func LastRuns[T any](folder string) (map[string]T, error) {
	runs := map[string]T{}
	for _, server := range []string{Kanzen, Peer} {
		b, err := os.ReadFile(lastRun(folder, server))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		var r T
		if err := json.Unmarshal(b, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", lastRun(folder, server), err)
		}
		runs[server] = r
	}
	return runs, nil
}
