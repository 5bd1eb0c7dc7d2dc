{
  description = "Kubernetes API server in one binary, with etcd inside";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixpkgs-unstable";

  outputs = { self, nixpkgs }:
    let
      version = "@VERSION@";
      binaries = {
        x86_64-linux = {
          kanzen = { file = "kanzen-linux-amd64"; sha256 = "@SHA256 kanzen-linux-amd64@"; };
          kubectl = { file = "kanzen-kubectl-linux-amd64"; sha256 = "@SHA256 kanzen-kubectl-linux-amd64@"; };
        };
        aarch64-linux = {
          kanzen = { file = "kanzen-linux-arm64"; sha256 = "@SHA256 kanzen-linux-arm64@"; };
          kubectl = { file = "kanzen-kubectl-linux-arm64"; sha256 = "@SHA256 kanzen-kubectl-linux-arm64@"; };
        };
        x86_64-darwin = {
          kanzen = { file = "kanzen-darwin-amd64"; sha256 = "@SHA256 kanzen-darwin-amd64@"; };
          kubectl = { file = "kanzen-kubectl-darwin-amd64"; sha256 = "@SHA256 kanzen-kubectl-darwin-amd64@"; };
        };
        aarch64-darwin = {
          kanzen = { file = "kanzen-darwin-arm64"; sha256 = "@SHA256 kanzen-darwin-arm64@"; };
          kubectl = { file = "kanzen-kubectl-darwin-arm64"; sha256 = "@SHA256 kanzen-kubectl-darwin-arm64@"; };
        };
      };
      kanzenFor = system:
        let
          pkgs = nixpkgs.legacyPackages.${system};
          download = { file, sha256 }: pkgs.fetchurl { url = "@URL@/${file}"; inherit sha256; };
          kubectl = download binaries.${system}.kubectl;
        in
        pkgs.stdenvNoCC.mkDerivation {
          pname = "kanzen";
          inherit version;
          src = download binaries.${system}.kanzen;
          dontUnpack = true;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          installPhase = ''
            install -D -m 0755 $src $out/bin/kanzen
            install -D -m 0755 ${kubectl} $out/bin/kanzen-kubectl
            export HOME=$TMPDIR
            for shell in bash zsh fish; do $out/bin/kanzen completion $shell > kanzen.$shell; done
            installShellCompletion kanzen.bash kanzen.zsh kanzen.fish
            $out/bin/kanzen man man
            installManPage man/*.1
          '';
          meta = {
            description = "Kubernetes API server in one binary, with etcd inside";
            homepage = "https://github.com/kanzen-io/kanzen";
            license = pkgs.lib.licenses.asl20;
            mainProgram = "kanzen";
            platforms = builtins.attrNames binaries;
            sourceProvenance = [ pkgs.lib.sourceTypes.binaryNativeCode ];
          };
        };
    in
    {
      packages = builtins.mapAttrs (system: _: { default = kanzenFor system; }) binaries;
      apps = builtins.mapAttrs
        (system: _: { default = { type = "app"; program = "${self.packages.${system}.default}/bin/kanzen"; }; })
        binaries;
    };
}
