package android.content.pm;

public class PackageItemInfo {
    public String packageName, name;
    public android.os.Bundle metaData;
    public CharSequence loadLabel(PackageManager packages) { return packageName; }
}
