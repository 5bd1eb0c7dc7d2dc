// Package kms is a KMS v2 plugin, as kube-apiserver and kanzen call it over a Unix socket to encrypt their seeds. Its keys
// are in a file (File) or in a PKCS#11 token (built with the tag pkcs11). A seed is sealed with AES-256-GCM, bound to the ID
// of its key; the newest key encrypts, all decrypt. It is small on purpose: a start for plugins of one's own.
package kms

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	kmsapi "k8s.io/kms/apis/v2"
)

// Keys are the keys of a plugin. They are safe for concurrent use.
type Keys interface {
	// Current is the ID of the key that encrypts.
	Current() (string, error)
	// Seal encrypts with a key; Open reverses it.
	Seal(id string, plain []byte) ([]byte, error)
	Open(id string, sealed []byte) ([]byte, error)
}

// errNoKey says that a key does not exist (any more).
var errNoKey = errors.New("there is no such key")

// Bounds of what servers send: a seed, or a key.
const (
	maxPlain   = 4 << 10
	maxMessage = 64 << 10
)

// annotation marks what this plugin has encrypted, and how.
const annotation, format = "format.kms.kanzen.io", "1"

// Plugin serves the KMS API with Keys.
type Plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	Keys Keys
	Log  *slog.Logger
}

// Serve serves on a Unix socket until ctx ends. Only the user of this process may connect.
func (p *Plugin) Serve(ctx context.Context, socket string) error {
	l, err := listen(socket)
	if err != nil {
		return err
	}
	s := grpc.NewServer(grpc.MaxRecvMsgSize(maxMessage), grpc.UnaryInterceptor(p.guarded))
	kmsapi.RegisterKeyManagementServiceServer(s, p)
	defer context.AfterFunc(ctx, s.GracefulStop)()
	return s.Serve(l)
}

// listen makes the socket in the place of one that a former process has left. It gets its name once nobody else may connect.
func listen(socket string) (net.Listener, error) {
	if c, err := net.Dial("unix", socket); err == nil {
		_ = c.Close()
		return nil, fmt.Errorf("another process serves on %s", socket)
	}
	dir, err := os.MkdirTemp(filepath.Dir(socket), ".kms-*") // 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.Listen("unix", made)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err := errors.Join(os.Chmod(made, 0o600), os.Rename(made, socket)); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

// guarded keeps a panic from ending the process, and logs what has failed.
func (p *Plugin) guarded(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (answer any, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = status.Error(codes.Internal, "a fault in the plugin")
			p.Log.Error("panic", "call", info.FullMethod, "fault", fault)
		} else if err != nil {
			p.Log.Warn("a call failed", "call", info.FullMethod, "error", err)
		}
	}()
	return handler(ctx, req)
}

// Status is part of the API. It tries the current key, and says "ok" only if that works.
func (p *Plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	id, err := p.Keys.Current()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	health := "ok"
	if err := p.try(id); err != nil {
		health = err.Error()
	}
	return &kmsapi.StatusResponse{Version: "v2", Healthz: health, KeyId: id}, nil
}

func (p *Plugin) try(id string) error {
	sealed, err := p.Keys.Seal(id, []byte(id))
	if err != nil {
		return fmt.Errorf("encrypt with key %s: %w", id, err)
	}
	plain, err := p.Keys.Open(id, sealed)
	if err != nil {
		return fmt.Errorf("decrypt with key %s: %w", id, err)
	}
	if !bytes.Equal(plain, []byte(id)) {
		return fmt.Errorf("key %s gives back something else than was encrypted with it", id)
	}
	return nil
}

// Encrypt is part of the API.
func (p *Plugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	if len(r.Plaintext) > maxPlain {
		return nil, status.Errorf(codes.InvalidArgument, "%d bytes are more than a key or seed", len(r.Plaintext))
	}
	id, err := p.Keys.Current()
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	sealed, err := p.Keys.Seal(id, r.Plaintext)
	if err != nil {
		return nil, status.Error(codes.Unavailable, err.Error())
	}
	return &kmsapi.EncryptResponse{Ciphertext: sealed, KeyId: id, Annotations: map[string][]byte{annotation: []byte(format)}}, nil
}

// Decrypt is part of the API.
func (p *Plugin) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	if got := string(r.Annotations[annotation]); got != format {
		return nil, status.Errorf(codes.InvalidArgument, "this was not encrypted by this plugin (%s: %q)", annotation, got)
	}
	plain, err := p.Keys.Open(r.KeyId, r.Ciphertext)
	switch {
	case errors.Is(err, errNoKey):
		return nil, status.Error(codes.NotFound, err.Error())
	case err != nil:
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return &kmsapi.DecryptResponse{Plaintext: plain}, nil
}
