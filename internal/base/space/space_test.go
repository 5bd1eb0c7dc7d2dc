package space

import "testing"

func TestOf(t *testing.T) {
	if d, err := Of(t.TempDir()); err != nil || d.Total == 0 || d.Free > d.Total {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := Of("/no/such/directory"); err == nil {
		t.Error("a directory that is not there has room")
	}
}
