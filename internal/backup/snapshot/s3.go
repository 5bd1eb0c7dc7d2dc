package snapshot

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3Config says where in an S3-compatible store snapshots are kept.
type S3Config struct {
	// URL is the server's: https://s3.eu-central-1.amazonaws.com.
	URL string
	// Bucket has the snapshots, their names begin with Prefix.
	Bucket, Prefix string
	Region         string
	// CredentialsFile is a file as AWS's programs have it ([default] aws_access_key_id=…). Empty: the environment's
	// AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.
	CredentialsFile string
	// CAFile has the authorities of the server's certificate; empty: the system's.
	CAFile string

	patience time.Duration // 0: storePatience
}

// S3 is a Place: a bucket of an S3-compatible store.
type S3 struct {
	config S3Config
	client *minio.Client
	// Close closes the connections to the store.
	Close func()
}

// NewS3 returns the place that a configuration names. Nothing is asked of the server.
func NewS3(c S3Config) (*S3, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("%q is not of the form https://address:port", c.URL)
	}
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, err
		}
		secure.RootCAs = x509.NewCertPool()
		if !secure.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("no certificates in %s", c.CAFile)
		}
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	transport.DialContext = impatient(transport.DialContext, cmp.Or(c.patience, storePatience))
	keys := credentials.NewEnvAWS()
	if c.CredentialsFile != "" {
		if _, err := os.Stat(c.CredentialsFile); err != nil {
			return nil, err
		}
		keys = credentials.NewFileAWSCredentials(c.CredentialsFile, "default")
	}
	client, err := minio.New(u.Host, &minio.Options{Creds: keys, Secure: u.Scheme == "https", Region: c.Region, Transport: boundedAnswers{transport}, BucketLookup: minio.BucketLookupAuto})
	if err != nil {
		return nil, err
	}
	return &S3{c, client, transport.CloseIdleConnections}, nil
}

// String is part of Place.
func (s *S3) String() string { return "s3://" + path.Join(s.config.Bucket, s.config.Prefix) }

func (s *S3) key(name string) string { return path.Join(s.config.Prefix, name) }

// Put is part of Place. What was stored is compared in size: servers verify the checksums of parts themselves.
func (s *S3) Put(ctx context.Context, name, file string) error {
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	done, err := s.client.FPutObject(ctx, s.config.Bucket, s.key(name), file, minio.PutObjectOptions{ContentType: "application/octet-stream", SendContentMd5: true})
	if err != nil {
		return err
	}
	if done.Size != info.Size() {
		return fmt.Errorf("%d of %d bytes were stored", done.Size, info.Size())
	}
	return nil
}

// List is part of Place.
func (s *S3) List(ctx context.Context) ([]string, error) {
	prefix := s.key(namePrefix)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var names []string
	for o := range s.client.ListObjects(ctx, s.config.Bucket, minio.ListObjectsOptions{Prefix: prefix}) {
		if o.Err != nil {
			return nil, o.Err
		}
		if len(names) == maxListed {
			return nil, errLongList
		}
		names = append(names, path.Base(o.Key))
	}
	return names, ctx.Err()
}

// Delete is part of Place.
func (s *S3) Delete(ctx context.Context, name string) error {
	if _, ok := madeAt(strings.TrimSuffix(name, KeysSuffix)); !ok {
		return errors.New("it is no scheduled snapshot")
	}
	return s.client.RemoveObject(ctx, s.config.Bucket, s.key(name), minio.RemoveObjectOptions{})
}
