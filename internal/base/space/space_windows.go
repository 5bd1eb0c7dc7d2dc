package space

import "golang.org/x/sys/windows"

// Of returns the room of a directory's file system.
func Of(dir string) (Disk, error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return Disk{}, err
	}
	var d Disk
	err = windows.GetDiskFreeSpaceEx(path, &d.Free, &d.Total, nil)
	return d, err
}
