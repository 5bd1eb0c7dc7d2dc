class Kanzen < Formula
  desc "Kubernetes API server in one binary, with etcd inside"
  homepage "https://github.com/kanzen-io/kanzen"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL@/kanzen-darwin-arm64"
      sha256 "@SHA256 kanzen-darwin-arm64@"
      resource "kubectl" do
        url "@URL@/kanzen-kubectl-darwin-arm64"
        sha256 "@SHA256 kanzen-kubectl-darwin-arm64@"
      end
    end
    on_intel do
      url "@URL@/kanzen-darwin-amd64"
      sha256 "@SHA256 kanzen-darwin-amd64@"
      resource "kubectl" do
        url "@URL@/kanzen-kubectl-darwin-amd64"
        sha256 "@SHA256 kanzen-kubectl-darwin-amd64@"
      end
    end
  end
  on_linux do
    on_arm do
      url "@URL@/kanzen-linux-arm64"
      sha256 "@SHA256 kanzen-linux-arm64@"
      resource "kubectl" do
        url "@URL@/kanzen-kubectl-linux-arm64"
        sha256 "@SHA256 kanzen-kubectl-linux-arm64@"
      end
    end
    on_intel do
      url "@URL@/kanzen-linux-amd64"
      sha256 "@SHA256 kanzen-linux-amd64@"
      resource "kubectl" do
        url "@URL@/kanzen-kubectl-linux-amd64"
        sha256 "@SHA256 kanzen-kubectl-linux-amd64@"
      end
    end
  end

  def install
    bin.install Dir["kanzen-*"].first => "kanzen"
    resource("kubectl").stage { bin.install Dir["kanzen-kubectl-*"].first => "kanzen-kubectl" }
    chmod 0755, [bin/"kanzen", bin/"kanzen-kubectl"]
    generate_completions_from_executable(bin/"kanzen", "completion")
    man1.mkpath
    system bin/"kanzen", "man", man1
  end

  service do
    run [opt_bin/"kanzen", "serve", "--data-dir", var/"kanzen"]
    keep_alive crashed: true
    log_path var/"log/kanzen.log"
    error_log_path var/"log/kanzen.log"
  end

  test do
    assert_match "kanzen #{version}", shell_output("#{bin}/kanzen version")
    system bin/"kanzen", "test", "--", bin/"kanzen-kubectl", "get", "namespaces"
  end
end
