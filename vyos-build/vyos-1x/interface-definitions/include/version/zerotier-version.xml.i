<!-- include start from include/version/zerotier-version.xml.i -->
<syntaxVersion component='zerotier' version='1'></syntaxVersion>
<!-- include end -->
